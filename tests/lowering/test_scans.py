"""Scans beside CPU PyTorch."""

import math

import pytest
import torch
from shadow import Shadow, run_samples
from torch.testing._internal.common_methods_invocations import op_db

from torch_tpu.lowering.platforms import lowering_for

aten = torch.ops.aten
SCANS = ["cumsum", "cumprod", "cummax", "cummin", "logcumsumexp"]
DTYPES = [torch.float32, torch.int64, torch.bool, torch.bfloat16, torch.complex64]


@pytest.mark.parametrize("op", [op for op in op_db if op.name in SCANS], ids=lambda op: op.name)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_samples(op, dtype):
    if dtype not in op.supported_dtypes("cpu"):
        pytest.skip("nothing to compare with")
    narrow = {"rtol": 2e-2, "atol": 2e-2} if dtype == torch.bfloat16 else {}
    grad = dtype == torch.float32
    shadow = run_samples(op, dtype, grad=grad, limit=3 if grad else 2, **narrow)
    assert any(name.startswith(f"aten.{op.name}") for name in shadow.seen)


@pytest.mark.parametrize("op", [torch.cummax, torch.cummin], ids=lambda op: op.__name__)
def test_the_last_of_equal_ones_and_every_nan_take_over(op):
    nan = math.nan
    with Shadow():
        op(torch.tensor([[1.0, 1.0, 0.0, 1.0, nan, 2.0, nan, 3.0]]), -1)
        op(torch.randint(0, 3, (5, 7)), 0)
        op(torch.zeros(0, 3), 0)
        op(torch.tensor(1.0), -1)


def test_complex_log_sums_stay_on_the_branch_of_the_larger_term():
    x, y = (torch.randn(50, dtype=torch.complex64) * 6 for _ in range(2))
    with Shadow():
        torch.logcumsumexp(x, 0)
        torch.logaddexp(x, y)


def test_infinities():
    inf = math.inf
    with Shadow():
        torch.logcumsumexp(torch.tensor([-inf, -inf, 0.0, inf, 1.0]), 0)
        torch.cumsum(torch.tensor([1.0, inf, -inf, 2.0]), 0)
        torch.cumprod(torch.tensor([2.0, inf, 0.0, 2.0]), 0)


@pytest.mark.parametrize("name", ["_cummax_helper", "_cummin_helper"])
def test_helpers_write_their_outputs(name):
    self = torch.randint(0, 5, (4, 6)).float()
    with Shadow() as shadow:
        getattr(aten, name)(self, torch.empty_like(self), torch.empty(4, 6, dtype=torch.int64), 1)
    assert shadow.seen


def test_a_dtype_is_taken_before_the_scan():
    with Shadow():
        torch.cumsum(torch.full((4, 5), 1.75), 1, dtype=torch.int32)
        torch.cumprod(torch.full((4, 5), 2, dtype=torch.int8), 0, dtype=torch.float16)


@pytest.mark.parametrize("highest", [1, 2**20, 2**40, 2**62], ids=str)
def test_sums_of_64_bit_integers_in_parts(highest):
    """What TPUs run, run here; what does not fit wraps around as PyTorch's sums do."""
    terms = torch.randint(-highest, highest, (3, 300))
    with lowering_for(["tpu"]), Shadow() as shadow:
        terms.cumsum(1)
        terms.cumsum(0)
        (terms > 0).cumsum(1)
        terms.int().cumsum(1)
        torch.tensor(-highest).cumsum(0)
    assert shadow.seen["aten.cumsum.default"] == 5
