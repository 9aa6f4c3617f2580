"""What a loop costs once it has run: no Python, no compiles, no growth; and few compiles at all."""

import threading

import pytest
import torch
from architectures import mlp
from digits import DigitsNet, train
from torch import nn
from twins import DEVICE, assert_same, to

from torch_tpu.diagnostics import counters

# What only a call that was never made before may cost.
COLD = ("python_entries", "lowerings", "compiles")


def _cold():
    torch.tpu.synchronize()
    return {name: counters()[name] for name in COLD}


@pytest.mark.usefixtures("strict")
def test_a_thousand_repeated_ops_enter_no_python_and_compile_nothing():
    x, y = torch.randn(16, 16, device=DEVICE), torch.randn(16, 16, device=DEVICE)

    def ops(x):
        for _ in range(250):
            x = x + y
            x = x.relu()
            x = x @ y
            x = x / x.norm()
        return x

    ops(x)
    before, ops_before = _cold(), counters()["ops"]
    ops(x)
    assert _cold() == before
    assert counters()["ops"] - ops_before >= 1000


CHANGING_NUMBERS = {
    "alpha": lambda x, n: torch.add(x, x, alpha=n),
    "a factor": lambda x, n: x * n,
    "an in-place step": lambda x, n: x.add_(x, alpha=-1e-4 * n),
    "a fill value": lambda x, n: torch.full((3, 4), n, device=DEVICE),
    "fill_": lambda x, n: x.fill_(n),
    "an exponent's base": lambda x, n: n**x,
    "a bound": lambda x, n: x.clamp(max=n),
    "a mask's value": lambda x, n: x.masked_fill(x > 0, n),
    "addcmul": lambda x, n: torch.addcmul(x, x, x, value=n),
    "lerp": lambda x, n: torch.lerp(x, x, n),
    "a foreach factor": lambda x, n: torch._foreach_mul([x, x], n),
}


@pytest.mark.usefixtures("strict")
@pytest.mark.parametrize("name", CHANGING_NUMBERS)
def test_a_changed_number_never_recompiles(name):
    run, x = CHANGING_NUMBERS[name], torch.rand(3, 4, device=DEVICE)
    run(x, 1.25)
    before = _cold()
    for step in range(30):
        run(x, 1.5 + step / 7)
    assert _cold() == before


def test_a_changed_number_changes_the_result():
    def all_of(x):
        return [torch.add(x, x, alpha=n) * n + torch.full_like(x, n) for n in (0.5, 2.25, -3.0)]

    assert_same(all_of(torch.ones(3, device=DEVICE)), all_of(torch.ones(3)))


@pytest.mark.parametrize("form", [{"foreach": False}, {"foreach": True}, {"fused": True}])
@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.SGD])
def test_a_training_loop_is_steady_after_two_steps_while_its_learning_rate_changes(kind, form):
    model = mlp().to(DEVICE)
    inputs, classes = to(DEVICE, torch.randn(8, 12), torch.arange(8) % 5)
    optimizer = kind(model.parameters(), lr=0.01, **form)

    def step():
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), classes).backward()
        optimizer.step()

    step(), step()
    before = _cold()
    for number in range(10):
        optimizer.param_groups[0]["lr"] = 0.01 / (number + 1)
        step()
    assert _cold() == before


def _mask(count, device):
    return (torch.arange(64, device=device) * 37 % 64) < count


COUNTED = {
    "boolean index": lambda x, n: x[_mask(n, x.device)],
    "boolean index of rows": lambda x, n: x.reshape(64, 1).expand(64, 3)[_mask(n, x.device)],
    "boolean index of columns": lambda x, n: x.expand(2, 64)[:, _mask(n, x.device)],
    "masked_select": lambda x, n: x.masked_select(_mask(n, x.device)),
    "nonzero": lambda x, n: torch.nonzero(_mask(n, x.device)),
    "unique": lambda x, n: torch.unique((x * 37).long() % max(n, 1), return_counts=True),
    "repeat_interleave": lambda x, n: torch.repeat_interleave(_mask(n, x.device).long() + 1),
}
COUNTS = range(40)


@pytest.mark.parametrize("name", COUNTED)
def test_forty_different_lengths_cost_a_handful_of_compiles_and_are_right(name):
    values = torch.arange(64.0)
    device_values = values.to(DEVICE)
    for warm in (0, 1):  # the ops beside the one that counts
        _mask(warm, DEVICE), (device_values * 37).long() % max(warm, 1), _mask(warm, DEVICE).long()
    before = counters()["compiles"]
    for count in COUNTS:
        got = COUNTED[name](device_values, count)
        expected = COUNTED[name](values, count)
        assert_same(
            list(got) if isinstance(got, tuple) else got,
            list(expected) if isinstance(expected, tuple) else expected,
        )
    # A program for the length and one for each power of two, with room for a few neighbours.
    assert counters()["compiles"] - before <= 12


def test_results_of_unknown_length_go_on_into_other_ops():
    def work(x):
        kept = x[x > 20]
        repeated = x.repeat_interleave((x % 3).long())
        return [kept * 2, kept.view(-1, 1) @ kept.view(1, -1), x.nonzero()[1:, 0], repeated + 1]

    values = torch.arange(27.0)
    assert_same(work(values.to(DEVICE)), work(values))


def test_eight_threads_share_a_device():
    wrong = []

    def work(number):
        try:
            generator = torch.Generator().manual_seed(number)
            x = torch.randn(8 + number % 3, 8, generator=generator)
            leaf, device_leaf = x.clone().requires_grad_(), x.to(DEVICE).requires_grad_()
            for _ in range(30):
                for each in (leaf, device_leaf):
                    each.grad = None
                    (each @ each.T).tanh().mul(number + 0.5).sum().backward()
                torch.testing.assert_close(device_leaf.grad.cpu(), leaf.grad, rtol=1e-4, atol=1e-4)
        except BaseException as error:  # a thread's failure must reach the test
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not any(thread.is_alive() for thread in threads) and wrong == []


def test_three_hundred_steps_of_a_convnet_hold_no_more_memory():
    steps = train(DigitsNet(), DEVICE)

    def bytes_after(count):
        for _ in range(count):
            loss = next(steps)
        torch.tpu.synchronize()
        assert loss.isfinite().item()
        return counters()["bytes_in_use"]

    early = bytes_after(20)
    assert bytes_after(280) == early
