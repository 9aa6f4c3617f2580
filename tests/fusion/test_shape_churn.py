"""Shapes that change all the time: few compilations, right results, and room for few programs."""

import pytest
import torch
from architectures import GPT
from counting import DEVICE, programs
from torch.nn import functional as F
from twins import twins

from torch_tpu import _C
from torch_tpu.diagnostics import counters

# Programs that ops of one structure may have before one of them ran a second time.
UNPROVEN = 3


def head(x):
    """A chain whose ops are the same for every number of rows."""
    return (x.sin() * 2 + 1).softmax(-1).sum(0)


def test_a_churning_structure_is_right_and_costs_what_its_ops_cost():
    ops, compared = 5, range(2 + UNPROVEN, 14)
    before = 0
    for rows in range(2, 14):
        if rows == compared[0]:
            before = programs()
        x = torch.randn(rows, 4, generator=torch.Generator().manual_seed(rows))
        torch.testing.assert_close(head(x.to(DEVICE)).cpu(), head(x))
    # Each shape costs a program for each op, which other traces share, and none beside.
    assert programs() - before <= len(compared) * ops


def test_a_churning_structure_makes_no_program_where_its_ops_have_theirs():
    shapes = range(30, 40)
    for rows in shapes:  # what the ops run one by one as
        with torch.tpu.set_eager_mode("strict"):
            head(torch.ones(rows, 4, device=DEVICE))
    inputs = [torch.ones(rows, 4).to(DEVICE) for rows in shapes]
    before = programs()
    for x in inputs:
        head(x).cpu()
    assert programs() - before <= UNPROVEN


def test_a_shape_that_comes_a_second_time_gets_its_program():
    inputs = [torch.ones(rows, 4).to(DEVICE) for rows in range(60, 66)]
    for _ in range(3):
        for x in inputs:
            head(x).cpu()
    torch.tpu.synchronize()
    before = counters()
    for x in inputs:
        head(x).cpu()
    after = counters()
    assert after["executions"] - before["executions"] == len(inputs)
    assert after["compiles"] == before["compiles"]


def generate(model, prompt, length):
    """Greedy decoding without a cache: each token sees one row more."""
    tokens = prompt
    for _ in range(length):
        tokens = torch.cat([tokens, model(tokens)[:, -1:].argmax(-1)], 1)
    return tokens


def test_generation_that_grows_is_right_and_the_second_text_compiles_nothing():
    models = [model.eval() for model in twins(lambda: GPT(length=12))]
    prompts = torch.tensor([[1, 2, 3]]), torch.tensor([[7, 5, 4]])
    with torch.no_grad():
        for prompt in prompts:
            before = counters()["compiles"]
            got = generate(models[1], prompt.to(DEVICE), 6).cpu()
            assert torch.equal(got, generate(models[0], prompt, 6))
    assert counters()["compiles"] == before


def test_ragged_batches_are_right_and_cost_nothing_once_each_length_came_twice():
    weights = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))
    device_weights = weights.to(DEVICE)

    def epoch():
        for length in (3, 9, 5, 7, 4, 8, 6):
            tokens = torch.arange(length) % 6
            got = F.embedding(tokens.to(DEVICE), device_weights).tanh().mean(0)
            expected = F.embedding(tokens, weights).tanh().mean(0)
            torch.testing.assert_close(got.cpu(), expected)

    epoch(), epoch()
    before = programs()
    epoch(), epoch()
    assert programs() == before


@pytest.fixture
def few_programs():
    _C.set_max_programs(4)
    yield
    _C.set_max_programs(4096)


@pytest.mark.usefixtures("few_programs")
def test_programs_that_were_evicted_are_made_again_and_right():
    chains = [lambda x, n=n: (x * (n + 1)).sin().cumsum(0) + n for n in range(3)]
    chains += [lambda x: x.cos().exp() - x, lambda x: x.flip(0).abs().sqrt() * x]
    x = torch.linspace(0, 1, 5)
    for _ in range(3):
        for chain in chains:
            for rows in (3, 4, 5):
                got = chain(x[:rows].to(DEVICE)).cpu()
                torch.testing.assert_close(got, chain(x[:rows]))


def test_the_environment_bounds_the_programs_in_memory(run_python, tmp_path):
    code = """
import torch, torch_tpu
def run():
    return [(torch.arange(n, device="tpu") * 2 + 1).sum().item() for n in range(3, 9)]
first = run()
before = torch_tpu.diagnostics.counters()
again = run()
after = torch_tpu.diagnostics.counters()
made = sum(after[each] - before[each] for each in ("compiles", "disk_hits"))
print(first == again == [n * n for n in range(3, 9)], made >= 6)
"""
    variables = {"TORCH_TPU_EAGER_MODE": "fused", "TORCH_TPU_ASYNC_COMPILE": "0"}
    assert run_python(code, TORCH_TPU_MAX_PROGRAMS="2", **variables) == "True True"
    assert run_python(code, **variables) == "True False"


def test_a_hundred_thousand_ops_are_freed_without_recursion_and_right():
    x = torch.zeros(4, device=DEVICE)
    for _ in range(100_000):
        x = x + 1
    assert x.tolist() == [100_000] * 4


def test_a_long_trace_whose_results_all_stay_alive_is_right():
    step = torch.tensor([[1.0, 1.0], [0.0, 1.0]], device=DEVICE)
    held = [torch.eye(2, device=DEVICE)]
    for _ in range(3000):
        held.append(held[-1] @ step)
    assert [each[0, 1].item() for each in held[::500]] == [500 * n for n in range(7)]
