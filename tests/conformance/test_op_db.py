"""Every op of PyTorch's op database agrees with the CPU on a float32 sample, gradient included."""

import pytest
import torch
from known_failures import reason
from op_samples import check_op, name_of, supported
from torch.testing._internal.common_methods_invocations import op_db

# A row that passes fails the run; argwhere's first sample has one dim, which has one order.
PASS_ONCE = {"argwhere"}


def _parameter(op):
    name = name_of(op)
    why = None if name in PASS_ONCE else reason("ops", "strict", "float32", "functional", name)
    marks = [pytest.mark.xfail(strict=True, reason=why)] if why else []
    return pytest.param(op, id=name, marks=marks)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("op", [_parameter(op) for op in op_db if supported(op, torch.float32)])
def test_op_agrees_with_cpu_in_results_and_gradients(op):
    assert check_op(op, torch.float32, samples=1, grad=True) > 0
