"""Fourier transforms beside CPU PyTorch."""

import itertools

import pytest
import torch
from family import Outside
from shadow import Shadow, run_samples
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
    shadow = run_samples(op, dtype, grad=plain, limit=2, skip=OTHERS, rtol=1e-4, atol=1e-4)
    assert any("_fft_" in name for name in shadow.seen)


@pytest.mark.parametrize("normalization", [0, 1, 2])
@pytest.mark.parametrize("dim", [(1,), (2, 0), (0, 1, -1), (3, 1, 0, 2)], ids=str)
def test_every_normalization(normalization, dim):
    real = torch.randn(3, 4, 2, 5, dtype=torch.float64)
    whole = torch.randn(3, 4, 2, 5, dtype=torch.complex128)
    with Shadow(skip=OTHERS) as shadow:
        for flag in (True, False):
            aten._fft_c2c(whole, dim, normalization, flag)
            aten._fft_r2c(real, dim, normalization, flag)
        half = aten._fft_r2c(real, dim, normalization, True)
        aten._fft_c2r(half, dim, normalization, real.shape[dim[-1]])
    assert sum(count for name, count in shadow.seen.items() if "_fft_" in name) == 6


def test_zero_sizes():
    with Shadow(skip=OTHERS) as shadow:
        for batch, normalization in itertools.product((0, 1), (0, 2)):
            real = torch.randn(batch, 6)
            aten._fft_c2r(aten._fft_r2c(real, [1], normalization, True), [1], normalization, 6)
            aten._fft_c2c(real.to(torch.complex64), [1], normalization, True)
            aten._fft_c2c(real.to(torch.complex64), [], normalization, True)
    assert sum(count for name, count in shadow.seen.items() if "_fft_" in name) == 16


def test_stft_round_trip():
    with Shadow(skip=OTHERS, rtol=1e-4, atol=1e-4) as shadow:
        signal = torch.randn(2, 64)
        window = torch.hann_window(16)
        spectrum = torch.stft(signal, 16, 4, window=window, return_complex=True)
        torch.istft(spectrum, 16, 4, window=window)
    assert sum(count for name, count in shadow.seen.items() if "_fft_" in name) == 2
