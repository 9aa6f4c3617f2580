"""Discrete Fourier transforms."""

import math

import jax.numpy as jnp
import torch
from jax import lax

from torch_tpu.lowering.registry import lowering

aten = torch.ops.aten

_MOST_DIMS = 3  # what one XLA transform takes
_FACTOR = {0: lambda n: 1.0, 1: lambda n: n**-0.5, 2: lambda n: 1.0 / n}  # none, by root n, by n


def _transform(self, kind, axes, lengths):
    """One XLA transform, which wants its axes to be the last ones."""
    last = tuple(range(self.ndim - len(axes), self.ndim))
    result = lax.fft(jnp.moveaxis(self, axes, last), kind, lengths)
    return jnp.moveaxis(result, last, axes)


def _complex(self, axes, forward):
    """Complex transforms over any number of axes; the inverse divides by n, as XLA's does."""
    kind = lax.FftType.FFT if forward else lax.FftType.IFFT
    for start in range(0, len(axes), _MOST_DIMS):
        part = axes[start : start + _MOST_DIMS]
        self = _transform(self, kind, part, tuple(self.shape[axis] for axis in part))
    return self


def _scaled(result, factor):
    return result if factor == 1 else result * jnp.asarray(factor, result.real.dtype)


def _axes(self, dim):
    return tuple(axis % self.ndim for axis in dim)


@lowering(aten._fft_c2c.default)
def _fft_c2c(self, dim, normalization, forward):
    if self.size == 0 or not dim:
        return self
    axes = _axes(self, dim)
    count = math.prod(self.shape[axis] for axis in axes)
    undone = 1 if forward else count
    return _scaled(_complex(self, axes, forward), undone * _FACTOR[normalization](count))


@lowering(aten._fft_r2c.default)
def _fft_r2c(self, dim, normalization, onesided):
    axes = _axes(self, dim)
    *others, halved = axes
    length = self.shape[halved]
    if self.size == 0:
        shape = list(self.shape)
        shape[halved] = length // 2 + 1 if onesided else length
        return jnp.zeros(shape, jnp.result_type(self.dtype, jnp.complex64))
    count = math.prod(self.shape[axis] for axis in axes)
    result = _transform(self, lax.FftType.RFFT, (halved,), (length,))
    result = _complex(result, others, True)
    if not onesided:
        result = _with_other_half(result, others, halved, length)
    return _scaled(result, _FACTOR[normalization](count))


def _with_other_half(result, others, halved, length):
    """The frequencies above the middle one: conjugates of those mirrored on every axis."""
    mirrored = lax.slice_in_dim(result, 1, (length + 1) // 2, axis=halved)
    mirrored = lax.rev(mirrored, (halved,))
    for axis in others:
        mirrored = jnp.roll(lax.rev(mirrored, (axis,)), 1, axis)
    return lax.concatenate([result, jnp.conj(mirrored)], halved)


@lowering(aten._fft_c2r.default)
def _fft_c2r(self, dim, normalization, last_dim_size):
    axes = _axes(self, dim)
    *others, halved = axes
    shape = list(self.shape)
    shape[halved] = last_dim_size
    if math.prod(shape) == 0:
        return jnp.zeros(shape, self.real.dtype)
    count = math.prod(shape[axis] for axis in axes)
    half = lax.slice_in_dim(self, 0, last_dim_size // 2 + 1, axis=halved)
    result = _transform(
        _complex(half, others, False), lax.FftType.IRFFT, (halved,), (last_dim_size,)
    )
    return _scaled(result, count * _FACTOR[normalization](count))
