"""Random numbers of compiled functions: eager mode's for the same seed, new ones at every call."""

import pytest
import torch
from compiling import assert_same_numbers, compiled, programs_got, randn
from torch import nn
from torch.nn import functional as F
from twins import DEVICE, twins

DRAWS = {
    "rand": lambda x: x + torch.rand(3, 4, device=x.device),
    "randn_like": lambda x: torch.randn_like(x),
    "randint": lambda x: torch.randint(0, 1000, (8,), device=x.device),
    "randperm": lambda x: torch.randperm(32, device=x.device),
    "dropout": lambda x: F.dropout(x + 3, 0.5),
    "feature dropout": lambda x: F.dropout1d(x.repeat(20, 1) + 3, 0.5),
    "bernoulli": lambda x: torch.bernoulli(torch.sigmoid(x)),
    "normal_": lambda x: torch.empty_like(x).normal_(1, 2),
    "uniform_": lambda x: torch.empty_like(x).uniform_(-1, 1),
    "exponential_": lambda x: torch.empty_like(x).exponential_(),
    "multinomial": lambda x: torch.multinomial(x.exp().repeat(1, 8), 8),
    "gumbel softmax": lambda x: F.gumbel_softmax(x),
    "several": lambda x: (torch.rand_like(x), F.dropout(x + 3, 0.2), torch.randn_like(x)),
}


@pytest.mark.parametrize("name", DRAWS)
def test_same_numbers_as_eager(name):
    assert_same_numbers(DRAWS[name], randn(3, 4))


def test_backward_uses_the_forwards_mask():
    run = compiled(lambda x: F.dropout(x, 0.5))
    masks = []
    for _ in range(2):
        x = torch.ones(64, device=DEVICE, requires_grad=True)
        y = run(x)
        y.sum().backward()
        torch.testing.assert_close(x.grad, y.detach())
        masks.append(y.detach())
    assert not torch.equal(*masks)


def test_a_training_step_with_dropout_is_eagers():
    def build():
        return nn.Sequential(nn.Linear(8, 32), nn.Dropout(0.3), nn.ReLU(), nn.Linear(32, 2))

    x, gradients = randn(4, 8, device=DEVICE), []
    for compile in (lambda model: model, compiled):
        model = twins(build)[1]
        call = compile(model)
        torch.manual_seed(3)
        for _ in range(2):
            call(x).square().sum().backward()
        gradients.append([p.grad for p in model.parameters()])
    torch.testing.assert_close(gradients[1], gradients[0])


def test_eager_and_compiled_draws_alternate_as_eager_ones_do():
    draw = DRAWS["rand"]
    run, x = compiled(draw), torch.zeros(3, 4, device=DEVICE)
    torch.manual_seed(1)
    expected = [draw(x) for _ in range(4)]
    torch.manual_seed(1)
    got = [each(x) for each in (run, draw, run, draw)]
    torch.testing.assert_close(got, expected)


def test_seeding_between_calls_repeats_the_numbers():
    run, x = compiled(DRAWS["dropout"]), randn(3, 4, device=DEVICE)
    results = []
    for seed in (torch.manual_seed, torch.tpu.manual_seed, torch.tpu.manual_seed_all):
        seed(9)
        results.append(run(x))
    assert torch.equal(results[0], results[1]) and torch.equal(results[0], results[2])


def test_a_state_that_is_set_repeats_the_numbers():
    run, x = compiled(DRAWS["rand"]), randn(3, 4, device=DEVICE)
    state = torch.tpu.get_rng_state()
    first = run(x)
    torch.tpu.set_rng_state(state)
    assert torch.equal(run(x), first)
    with torch.random.fork_rng(devices=[0], device_type=DEVICE):
        torch.manual_seed(0)
        run(x)
    following = run(x)
    torch.tpu.set_rng_state(state)
    run(x)
    assert torch.equal(run(x), following)


def test_seeding_inside_breaks_the_graph_and_acts():
    def function(x):
        y = x + torch.rand(4, device=x.device)
        torch.manual_seed(4)
        return y, torch.rand(4, device=x.device)

    run, x = compiled(function, fullgraph=False), torch.zeros(4, device=DEVICE)
    torch.manual_seed(1)
    expected = function(x)
    torch.manual_seed(1)
    torch.testing.assert_close(run(x), expected)
    assert torch.equal(run(x)[1], expected[1])


def test_a_generator_of_ones_own():
    def function(x, generator):
        return x + torch.rand(4, device=x.device, generator=generator)

    run, x = compiled(function, fullgraph=False), torch.zeros(4, device=DEVICE)
    eager, own = torch.Generator(DEVICE).manual_seed(2), torch.Generator(DEVICE).manual_seed(2)
    for _ in range(2):
        torch.testing.assert_close(run(x, own), function(x, eager))


def test_draws_on_the_cpu_are_the_cpus():
    def function(x):
        return x + torch.rand(4).to(x.device)

    run, x = compiled(function, fullgraph=False), torch.zeros(4, device=DEVICE)
    torch.manual_seed(1)
    expected = function(x)
    torch.manual_seed(1)
    torch.testing.assert_close(run(x), expected)


def test_vmap_draws_for_each_row_or_for_all():
    def function(x, randomness):
        return torch.func.vmap(lambda row: F.dropout(row + 1, 0.5), randomness=randomness)(x)

    x = torch.zeros(3, 100, device=DEVICE)
    different, same = (compiled(function)(x, each) for each in ("different", "same"))
    assert not torch.equal(different[0], different[1])
    assert torch.equal(same[0], same[1])


OPEN = {
    "dropout": lambda x: F.dropout(x + 3, 0.5),
    "rand_like": torch.rand_like,
    "randn": lambda x: torch.randn(x.shape[0], 3, device=x.device),
    "rand": lambda x: torch.rand(4, x.shape[1], device=x.device),
    "randint_like": lambda x: torch.randint_like(x, 100),
    "randint": lambda x: torch.randint(3, 100, x.shape, device=x.device),
    "normal": lambda x: torch.normal(1.0, 2.0, x.shape, device=x.device),
    "bernoulli": lambda x: torch.bernoulli(torch.sigmoid(x)),
}


@pytest.mark.parametrize("name", OPEN)
def test_sizes_that_are_open_draw_eagers_numbers(name):
    function = OPEN[name]
    run = compiled(function, dynamic=True)
    for rows, programs in ((5, 1), (7, 0), (9, 1)):  # bounds of 8 and 16
        x = randn(rows, rows + 1, device=DEVICE)
        torch.manual_seed(rows)
        before = programs_got()
        drawn = run(x)
        assert programs_got() - before == programs
        torch.manual_seed(rows)
        assert torch.equal(drawn, function(x))
