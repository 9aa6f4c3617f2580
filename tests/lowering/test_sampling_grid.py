"""grid_sample and affine_grid beside CPU PyTorch."""

import pytest
import torch
import torch.nn.functional as F
from shadow import Shadow

MODES = [(2, "bilinear"), (2, "nearest"), (2, "bicubic"), (3, "bilinear"), (3, "nearest")]


@pytest.mark.parametrize("dims, mode", MODES)
@pytest.mark.parametrize("padding_mode", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("align_corners", [True, False])
def test_grid_sample(dims, mode, padding_mode, align_corners):
    image = torch.randn(2, 3, *(4, 5, 6)[:dims], requires_grad=True)
    grid = (torch.rand(2, *(3, 2, 4)[:dims], dims) * 4 - 2).requires_grad_()
    with Shadow(rtol=1e-5, atol=1e-4) as shadow:  # border: all of a cubic's taps may cancel
        sampled = F.grid_sample(image, grid, mode, padding_mode, align_corners)
        sampled.square().sum().backward()
    assert shadow.seen[f"aten.grid_sampler_{dims}d.default"] == 1
    assert shadow.seen[f"aten.grid_sampler_{dims}d_backward.default"] == 1


@pytest.mark.parametrize("padding_mode", ["zeros", "border", "reflection"])
def test_on_the_edges(padding_mode):
    image = torch.randn(1, 1, 3, 3, requires_grad=True)
    edges = torch.tensor([-1.0, 0.0, 1.0])
    grid = torch.stack(torch.meshgrid(edges, edges, indexing="xy"), -1)[None].requires_grad_()
    with Shadow():
        F.grid_sample(image, grid, padding_mode=padding_mode, align_corners=True).sum().backward()


@pytest.mark.parametrize("size", [(2, 3, 4, 5), (2, 3, 4, 1, 6)])
@pytest.mark.parametrize("align_corners", [True, False])
def test_affine_grid(size, align_corners):
    dims = len(size) - 2
    theta = torch.randn(2, dims, dims + 1)
    with Shadow() as shadow:
        torch.ops.aten.affine_grid_generator(theta, size, align_corners)
    assert shadow.seen["aten.affine_grid_generator.default"] == 1


def test_bfloat16():
    image = torch.randn(1, 2, 4, 4).bfloat16().requires_grad_()
    grid = (torch.rand(1, 3, 3, 2) * 2 - 1).bfloat16()
    with Shadow(rtol=0.1, atol=0.1):  # CPU PyTorch accumulates in bfloat16
        F.grid_sample(image, grid, align_corners=False).sum().backward()
