"""Fake quantisation beside CPU PyTorch."""

import pytest
import torch
from shadow import Shadow


@pytest.mark.parametrize("enabled", [0, 1])
def test_per_tensor(enabled):
    x = torch.cat([torch.randn(40) * 10, torch.tensor([0.05, 0.15, -0.25])]).requires_grad_()
    scale, zero_point = torch.tensor([0.1]), torch.tensor([3], dtype=torch.int32)
    with Shadow() as shadow:
        torch.fake_quantize_per_tensor_affine(x, 0.1, 3, -128, 127).sum().backward()
        torch.ops.aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams(
            x, scale, zero_point, torch.tensor([enabled]), 0, 255
        )
    assert sum(n for name, n in shadow.seen.items() if "cachemask" in name) == 2


@pytest.mark.parametrize("axis", [0, 1])
def test_per_channel(axis):
    x = torch.randn(3, 4) * 10
    channels = x.shape[axis]
    scale = torch.rand(channels) + 0.05
    zero_point = torch.randint(-3, 3, (channels,), dtype=torch.int32)
    with Shadow() as shadow:
        torch.fake_quantize_per_channel_affine(x, scale, zero_point, axis, -8, 7)
    assert sum(n for name, n in shadow.seen.items() if "cachemask" in name) == 1
