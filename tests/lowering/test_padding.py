"""Reflection and replication padding beside CPU PyTorch."""

import pytest
import torch
import torch.nn.functional as F
from shadow import Shadow, run_samples
from torch.testing._internal.common_methods_invocations import op_db

VARIANTS = ("reflect", "replicate", "replicate_negative")
PAD = [op for op in op_db if op.name == "nn.functional.pad" and op.variant_test_name in VARIANTS]


@pytest.mark.parametrize("op", PAD, ids=lambda op: op.variant_test_name)
@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64], ids=str)
def test_samples(op, dtype):
    shadow = run_samples(op, dtype, grad=True, limit=24)
    assert any("_backward" in name for name in shadow.seen)


@pytest.mark.parametrize("mode", ["reflect", "replicate"])
@pytest.mark.parametrize("dims", [1, 2, 3])
def test_uneven_and_negative_amounts(mode, dims):
    # Whole numbers, whose squares' sums are exact in any order.
    image = torch.randn(2, 3, *(5, 6, 7)[:dims]).mul(4).round().requires_grad_()
    with Shadow() as shadow:
        for padding in ((2, 1) * dims, (0, 3) * dims, (-1, 2) * dims, (1, -2) * dims):
            F.pad(image, padding, mode=mode).square().sum().backward()
    name = "reflection" if mode == "reflect" else "replication"
    assert shadow.seen[f"aten.{name}_pad{dims}d.default"] == 4
    assert shadow.seen[f"aten.{name}_pad{dims}d_backward.default"] == 4
