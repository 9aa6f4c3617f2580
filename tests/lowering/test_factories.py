"""Factory rules beside CPU PyTorch."""

import pytest
import torch

from tests.lowering.shadow import Shadow, run_rule, to_tensor

aten = torch.ops.aten

RANGES = [
    (0, 10, 3),
    (5, -4, -2),
    (0.5, 3.0, 0.25),
    (1, 1, 1),
    (0, 2.5, 0.1),
    (2**40, 2**40 + 5, 2),
]


@pytest.mark.parametrize("start, end, step", RANGES)
def test_arange(start, end, step):
    with Shadow() as shadow:
        for dtype in (None, torch.float32, torch.float64, torch.int64 if int(step) else None):
            torch.arange(start, end, step, dtype=dtype)
            torch.arange(start, end, step, out=torch.empty(0, dtype=dtype))
    assert len(shadow.seen) == 2


@pytest.mark.filterwarnings("ignore:torch.range is deprecated")
def test_range_of_both_ends():
    with Shadow() as shadow:
        torch.range(0, 4), torch.range(0.5, 2.1, 0.4), torch.range(3, -3, -1.5)
        torch.arange(4), torch.arange(2, 7.5)
    assert len(shadow.seen) >= 3


@pytest.mark.parametrize("steps", [0, 1, 2, 7, 50])
def test_linspace_and_logspace(steps):
    with Shadow() as shadow:
        for dtype in (torch.float32, torch.float64, torch.complex64):
            torch.linspace(-3, 11, steps, dtype=dtype)
            torch.linspace(torch.tensor(1.5), 4, steps, dtype=dtype)
        torch.linspace(-3, 2 * steps - 5, steps, dtype=torch.int32)
        torch.logspace(-1, 2, steps), torch.logspace(0, 4, steps, base=2.0, dtype=torch.float64)
    assert len(shadow.seen) >= 3


def test_constants():
    x = torch.ones(2, 3, dtype=torch.int32)
    with Shadow() as shadow:
        torch.full((2, 3), 7), torch.full((), 1.5, dtype=torch.bfloat16), torch.full((2,), 1j)
        torch.zeros(2, 0), torch.ones(3, dtype=torch.bool), torch.zeros_like(x)
        torch.ones_like(x, dtype=torch.complex64), torch.full_like(x, 3), x.new_zeros(4)
        x.new_ones(2, 2), x.new_full((3,), True, dtype=torch.bool), torch.scalar_tensor(2)
        torch.eye(3), torch.eye(2, 5, dtype=torch.int64), torch.eye(0, 3)
        torch.eye(3, out=torch.empty(0, dtype=torch.float64))
    assert len(shadow.seen) >= 12


def test_the_fill_value_is_a_runtime_number():
    result = run_rule(aten.full.default, ((2,), 3), {"dtype": torch.float16})
    assert to_tensor(result, torch.float16).tolist() == [3, 3]
