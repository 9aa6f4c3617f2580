"""Resizing beside CPU PyTorch."""

import pytest
import torch
import torch.nn.functional as F
from family import Outside
from shadow import Shadow, run_samples
from torch.testing._internal.common_methods_invocations import op_db

INTERPOLATE = [op for op in op_db if op.name == "nn.functional.interpolate"]
MODES = {"nearest": (1, 2, 3), "nearest-exact": (1, 2, 3), "linear": (1,), "bilinear": (2,)}
MODES |= {"trilinear": (3,), "bicubic": (2,)}
OTHERS = Outside("upsampling")


def sizes(dims):
    """Whole factors and an uneven size, and scales that sizes do not follow from."""
    yield {"size": (12, 7, 7)[:dims]}
    yield {"scale_factor": (1.7, 2.3, 0.6)[:dims]}


@pytest.mark.parametrize("op", INTERPOLATE, ids=lambda op: op.variant_test_name)
def test_samples(op):
    shadow = run_samples(op, torch.float32, grad=True, limit=3)
    assert any(
        "upsample" in name or "adaptive" in name for name in (*shadow.seen, *shadow.unserved)
    )


@pytest.mark.parametrize("mode, dims", [(mode, d) for mode in MODES for d in MODES[mode]])
def test_sizes_and_scales(mode, dims):
    image = torch.randn(2, 2, *(6, 9, 7)[:dims], requires_grad=True)
    corners = (False,) if "nearest" in mode else (False, True)
    with Shadow(skip=OTHERS) as shadow:
        for size in sizes(dims):
            for align_corners in corners:
                option = {} if "nearest" in mode else {"align_corners": align_corners}
                F.interpolate(image, mode=mode, **size, **option).square().sum().backward()
    assert sum(n for name, n in shadow.seen.items() if "upsample" in name) == 4 * len(corners)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("align_corners", [False, True])
def test_antialias(mode, align_corners):
    image = torch.randn(1, 2, 11, 8, requires_grad=True)
    with Shadow() as shadow:
        for size in ((4, 3), (22, 8)):
            resized = F.interpolate(
                image, size, mode=mode, antialias=True, align_corners=align_corners
            )
            resized.square().sum().backward()
    assert shadow.seen[f"aten._upsample_{mode}2d_aa_backward.default"] == 2


def test_lanczos():
    image = torch.randn(1, 2, 11, 8, requires_grad=True)
    with Shadow() as shadow:
        for size in ((4, 3),):
            resized = torch.ops.aten._upsample_lanczos2d_aa(image, size, False)
            resized.square().sum().backward()
    assert len(shadow.seen) >= 2


@pytest.mark.parametrize("size", [(8, 8), (3, 5)])
def test_narrow_dtypes(size):
    with Shadow(rtol=2e-2, atol=2e-2):
        for mode in ("nearest", "bilinear", "bicubic"):
            image = torch.randn(1, 3, 4, 4, dtype=torch.bfloat16, requires_grad=True)
            F.interpolate(image, size, mode=mode).float().sum().backward()


@pytest.mark.parametrize("size", [(8, 8), (3, 5), (9, 2)])
def test_bytes_are_rounded_as_on_the_cpu(size):
    with Shadow(rtol=0, atol=0):
        image = torch.randint(0, 256, (1, 3, 4, 4), dtype=torch.uint8)
        for mode in ("nearest", "bilinear", "bicubic"):
            F.interpolate(image, size, mode=mode)
        for mode in ("bilinear", "bicubic"):
            F.interpolate(image, size, mode=mode, antialias=True)
