"""im2col and col2im beside CPU PyTorch."""

import pytest
import torch
import torch.nn.functional as F
from shadow import Shadow, run_samples
from torch.testing._internal.common_methods_invocations import op_db

FOLDING = [op for op in op_db if op.name in ("nn.functional.fold", "nn.functional.unfold")]


@pytest.mark.parametrize("op", FOLDING, ids=lambda op: op.name)
def test_samples(op):
    shadow = run_samples(op, torch.float32, grad=True, limit=24)
    assert shadow.seen["aten.im2col.default"] and shadow.seen["aten.col2im.default"]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.complex64], ids=str)
def test_windows_that_tile_and_overlap(dtype):
    image = torch.randn(2, 3, 9, 8, dtype=dtype)
    with Shadow():
        for window in ({"stride": 2}, {"stride": (3, 1)}, {"stride": 1, "dilation": 2}):
            columns = F.unfold(image, kernel_size=2, padding=1, **window)
            F.fold(columns, (9, 8), kernel_size=2, padding=1, **window)
