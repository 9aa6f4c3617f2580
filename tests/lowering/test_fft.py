"""Fourier transforms beside CPU PyTorch."""

import pytest
import torch
from family import Outside
from shadow import Shadow, run_rule, run_samples
from torch.testing._internal.common_methods_invocations import op_db

aten = torch.ops.aten

OTHERS = Outside("fft")

OPS = [op for op in op_db if op.name.startswith("fft.") and "shift" not in op.name]
DTYPES = [torch.float32, torch.complex64, torch.int64]


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_samples(op, dtype):
    if dtype not in op.supported_dtypes("cpu"):
        pytest.skip("not on the CPU")
    plain = dtype == torch.float32 and dtype in op.supported_backward_dtypes("cpu")
    shadow = run_samples(op, dtype, grad=plain, limit=2, skip=OTHERS)
    assert any("_fft_" in name for name in shadow.seen)


@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
@pytest.mark.parametrize("dim", [(1,), (2, 0), (0, 1, 3), (3, 1, 0, 2)], ids=str)
def test_every_normalization(norm, dim):
    real = torch.randn(3, 4, 2, 5, dtype=torch.float64)
    whole = torch.randn(3, 4, 2, 5, dtype=torch.complex128)
    sizes = [real.shape[each] for each in dim]
    with Shadow(skip=OTHERS) as shadow:
        torch.fft.fftn(whole, dim=dim, norm=norm)
        torch.fft.ifftn(whole, dim=dim, norm=norm)
        torch.fft.fftn(real, dim=dim, norm=norm)
        half = torch.fft.rfftn(real, dim=dim, norm=norm)
        torch.fft.irfftn(half, sizes, dim=dim, norm=norm)
    assert sum(shadow.seen.values()) == 5


def test_zero_sizes():
    """MKL refuses an empty batch; the rules give an empty one back."""
    real, whole = torch.randn(0, 6), torch.randn(0, 4, dtype=torch.complex64)
    shapes = [
        run_rule(aten._fft_r2c.default, (real, [1], 2, onesided), {}).shape
        for onesided in (True, False)
    ]
    shapes.append(run_rule(aten._fft_c2r.default, (whole, [1], 2, 6), {}).shape)
    shapes.append(run_rule(aten._fft_c2c.default, (whole, [1], 2, True), {}).shape)
    assert shapes == [(0, 4), (0, 6), (0, 6), (0, 4)]


def test_stft_round_trip():
    with Shadow(skip=OTHERS) as shadow:
        signal = torch.randn(2, 64)
        window = torch.hann_window(16)
        spectrum = torch.stft(signal, 16, 4, window=window, return_complex=True)
        torch.istft(spectrum, 16, 4, window=window)
    assert sum(count for name, count in shadow.seen.items() if "_fft_" in name) == 2
