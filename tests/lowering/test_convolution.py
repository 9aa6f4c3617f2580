"""Convolutions and their gradients beside CPU PyTorch."""

import pytest
import torch
import torch.nn.functional as F
from shadow import Shadow, run_samples
from torch.testing._internal.common_methods_invocations import op_db

OPS = [op for op in op_db if op.name.startswith("nn.functional.conv")]


def whole(*sizes):
    """Small whole numbers, whose products add up to the same in any order."""
    return torch.randint(-2, 3, sizes).float()


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_samples(op):
    shadow = run_samples(op, torch.float32, grad=True, limit=2)
    assert (
        shadow.seen["aten.convolution.default"] and shadow.seen["aten.convolution_backward.default"]
    )


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.int64, torch.complex64], ids=str)
@pytest.mark.parametrize("op", OPS[:4], ids=lambda op: op.name)
def test_samples_of_other_dtypes(op, dtype):
    if dtype not in op.supported_dtypes("cpu"):
        pytest.skip("not on the CPU")
    grad = dtype == torch.bfloat16
    if grad and "transpose" in op.name:
        pytest.skip("CPU PyTorch sums the places of the kernel in bfloat16 here")
    tolerance = 2e-2 if grad else 1e-4
    run_samples(op, dtype, grad=grad, limit=2, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("groups", [1, 4])
@pytest.mark.parametrize("transposed", [False, True])
def test_strided_dilated_grouped(dims, groups, transposed):
    function = getattr(F, f"conv{'_transpose' * transposed}{dims}d")
    # With this dilation PyTorch takes an output padding above the stride.
    window = {"stride": 2, "padding": 1, "dilation": 3, "groups": groups}
    extra = {"output_padding": 2} if transposed else {}
    channels = (4, 8 // groups) if transposed else (8, 4 // groups)
    input, weight, bias = (
        whole(*sizes).requires_grad_()
        for sizes in ((2, 4, *[7 + i for i in range(dims)]), (*channels, *[3] * dims), (8,))
    )
    with Shadow() as shadow:
        function(input, weight, bias, **window, **extra).square().sum().backward()
    assert shadow.seen["aten.convolution_backward.default"] == 1


@pytest.mark.parametrize("groups", [1, 6])
@pytest.mark.parametrize("kernel", [1, 3])
def test_frozen_parts_have_no_gradient(groups, kernel):
    input, weight = whole(2, 6, 5, 5), whole(12, 6 // groups, kernel, kernel)
    with Shadow():
        for frozen in (input, weight):
            for each in (input, weight):
                each.requires_grad_(each is not frozen)
            F.conv2d(input, weight, groups=groups).sum().backward()


def test_empty_batch():
    input, weight = torch.randn(0, 3, 5, 5, requires_grad=True), torch.randn(4, 3, 3, 3)
    with Shadow():
        F.conv2d(input, weight.requires_grad_()).sum().backward()
    assert weight.grad.eq(0).all()
