"""Softmax and its kinds beside CPU PyTorch."""

import pytest
import torch
from shadow import Shadow, run_samples
from torch.testing._internal.common_methods_invocations import op_db

aten = torch.ops.aten
NAMES = ("softmax", "log_softmax", "nn.functional.softmin")
OPS = [op for op in op_db if op.name in NAMES and not op.variant_test_name]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_samples(op, dtype):
    narrow = {"rtol": 2e-2, "atol": 2e-2} if dtype == torch.bfloat16 else {}
    shadow = run_samples(op, dtype, grad=True, limit=8, **narrow)
    assert sum("softmax" in name for name in shadow.seen) == 2


def test_infinities_and_nan():
    low, nan = -torch.inf, torch.nan
    rows = torch.tensor([[low, 0, 1], [low, low, low], [nan, 0, 1], [torch.inf, 0, 1]])
    with Shadow() as shadow:
        for function in (torch.softmax, torch.log_softmax, torch._safe_softmax):
            function(rows, -1)
        torch._safe_softmax(rows, 0, torch.float64)
        torch._safe_softmax(torch.zeros(2, 0), 1)
    assert shadow.seen["aten._safe_softmax.default"] == 3


@pytest.mark.parametrize(
    ("shape", "dim", "mask_type"),
    [((4, 4), 3, 0), ((2, 4), 3, 1), ((2, 3, 4, 4), 3, 2), ((2, 3, 4, 4), 1, 2), ((4, 4), None, 0)],
)
def test_masked(shape, dim, mask_type):
    scores = torch.randn(2, 3, 4, 4, requires_grad=True)
    mask = torch.rand(shape) < 0.5
    mask[0] = True
    with Shadow() as shadow:
        aten._masked_softmax(scores, mask, dim, mask_type)
        if len(shape) == 4:
            aten._masked_softmax(scores, mask, dim, mask_type).sum().backward()
    assert shadow.seen["aten._masked_softmax.default"]
