"""Average and max pooling beside CPU PyTorch."""

import pytest
import torch
import torch.nn.functional as F
from shadow import Shadow, run_rule, run_samples
from torch.testing._internal.common_methods_invocations import op_db

aten = torch.ops.aten

OPS = {
    "nn.functional.adaptive_avg_pool1d": 3,
    "nn.functional.adaptive_avg_pool2d": 3,
    "nn.functional.adaptive_avg_pool3d": 3,
    "nn.functional.adaptive_max_pool1d": 3,
    "nn.functional.adaptive_max_pool2d": 3,
    "nn.functional.adaptive_max_pool3d": 3,
    "nn.functional.avg_pool1d": 4,
    "nn.functional.avg_pool2d": 3,
    "nn.functional.avg_pool3d": 4,
    "nn.functional.max_pool1d": 4,
    "nn.functional.max_pool2d": 4,
    "nn.functional.max_pool3d": 2,
    "nn.functional.max_unpool2d": 2,
    "nn.functional.max_unpool3d": 2,
}


@pytest.mark.parametrize("op", [op for op in op_db if op.name in OPS], ids=lambda op: op.full_name)
def test_samples(op):
    shadow = run_samples(op, torch.float32, grad=True, limit=OPS[op.name])
    assert any("pool" in name for name in shadow.seen)


def _windows(images):
    """Every way to lay a window, forward and backward."""
    for function, more in (
        (F.max_pool2d, {"dilation": (1, 2)}),
        (F.avg_pool2d, {"count_include_pad": False}),
        (F.avg_pool2d, {"divisor_override": 3}),
    ):
        window = {"stride": (2, 1), "padding": 1, "ceil_mode": True}
        yield function(images, (3, 2), **window, **more)
    yield F.max_pool2d(images, 7, 1)
    for size in ((2, 4), (4, 3)):
        yield F.adaptive_avg_pool2d(images, size)
        yield F.adaptive_max_pool2d(images, size)


def test_windows():
    images = torch.randn(2, 3, 8, 9, requires_grad=True)
    with Shadow(rtol=1e-5, atol=1e-5):
        for output in _windows(images):
            output.square().sum().backward()


def test_bfloat16():
    images = torch.randn(2, 3, 8, 9, dtype=torch.bfloat16, requires_grad=True)
    with Shadow(rtol=2e-2, atol=2e-2):
        for function in (F.max_pool2d, F.avg_pool2d):
            function(images, 3, 2, 1).square().sum().backward()


def test_windows_with_gaps_and_windows_that_overlap():
    images = torch.randn(1, 2, 20, 23, requires_grad=True)
    with Shadow(rtol=1e-5, atol=1e-5):
        for function in (F.max_pool2d, F.avg_pool2d):
            for kernel, stride in ((2, 3), (17, 1)):
                function(images, kernel, stride).square().sum().backward()


def test_integers():
    images = torch.randint(-9, 9, (2, 3, 6, 6))
    with Shadow() as shadow:
        F.max_pool2d(images, 2, padding=1)
        F.avg_pool2d(images, 3, 2)
    assert len(shadow.seen) == 2


def test_nan_infinity_and_equals():
    nan, low = torch.nan, -torch.inf
    images = torch.tensor([[[nan, 1, 2], [3, nan, 1], [low, low, low]]])
    with Shadow():
        for each in (images, torch.full((1, 3, 3), low), torch.ones(1, 3, 3)):
            aten.max_pool2d_with_indices(each, 2, 1)
            aten.max_pool2d_with_indices(each, 2, 2, 1)
            aten.adaptive_max_pool2d(each, [2, 2])
            aten.adaptive_max_pool2d(each, [1, 1])


@pytest.mark.parametrize("dims", [2, 3])
@pytest.mark.parametrize("batched", [True, False])
def test_fractional(dims, batched):
    images = torch.randn(*[2] * batched, 3, *range(7, 7 + dims), requires_grad=True)
    samples = torch.rand(2 if batched else 1, 3, dims)
    op = getattr(aten, f"fractional_max_pool{dims}d")
    with Shadow() as shadow:
        for counts in ([3] * dims, [1] * dims):
            op(images, [2] * dims, counts, samples)[0].square().sum().backward()
    assert shadow.seen[f"aten.fractional_max_pool{dims}d_backward.default"] == 2


def test_max_unpool_refuses_an_index_outside():
    with pytest.raises(ValueError, match="invalid max index"):
        run_rule(
            aten.max_unpool2d.default, (torch.ones(1, 1, 1), torch.tensor([[[4]]]), [2, 2]), {}
        )


def test_empty_batch():
    images = torch.randn(0, 3, 4, 4, requires_grad=True)
    with Shadow():
        for function in (F.max_pool2d, F.avg_pool2d, F.adaptive_avg_pool2d, F.adaptive_max_pool2d):
            function(images, 2).sum().backward()
