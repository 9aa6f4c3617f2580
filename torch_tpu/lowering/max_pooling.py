"""Max pooling over windows (sliding, adaptive or drawn), its indices, gradients and inverse."""

import functools
import math

import jax.numpy as jnp
import numpy as np
import torch
from jax import lax

from torch_tpu.lowering.checks import check
from torch_tpu.lowering.pooling import adaptive_bounds
from torch_tpu.lowering.promotion import promote
from torch_tpu.lowering.registry import lowering
from torch_tpu.lowering.windows import at_place, by_position, per_dim, sliding

aten = torch.ops.aten

# With more places to a window than this, its gradient is scattered rather than gathered.
_MOST_PLACES = 32


def _largest(places):
    """The largest of some (values, indices): the first of equals, but the last NaN.

    An index below 0 marks padding, which even minus infinity beats.
    """
    best, where = next(places)
    for values, indices in places:
        better = (values > best) | (where < 0)
        if jnp.issubdtype(values.dtype, jnp.floating):
            better |= jnp.isnan(values)
        better &= indices >= 0
        best, where = jnp.where(better, values, best), jnp.where(better, indices, where)
    return best, where


def _max_pool(self, dims, kernels, take):
    """Values and flat indices of the windows' largest, one dim after the other, last dim first.

    In this order the first of equals in each dim is the first in the window as a whole.
    ``take(array, dim, place, fill)`` gives what each window of a dim has in a place, with
    ``fill`` for padding.
    """
    shape = self.shape[-dims:]
    indices = lax.iota(jnp.int32, math.prod(shape)).reshape(shape)
    pooled = self, jnp.broadcast_to(indices, self.shape)
    for dim in reversed(range(dims)):
        fills = _lowest(self.dtype), -1
        places = (
            tuple(map(functools.partial(take, dim=dim, place=place), pooled, fills))
            for place in range(kernels[dim])
        )
        pooled = _largest(places)
    values, indices = pooled
    return values, indices.astype(jnp.int64)


def _lowest(dtype):
    return -jnp.inf if jnp.issubdtype(dtype, jnp.floating) else jnp.iinfo(dtype).min


def _max_pool_with_indices(dims):
    def max_pool_with_indices(
        self, kernel_size, stride=(), padding=(0,), dilation=(1,), ceil_mode=False
    ):
        windows = sliding(
            self.shape[-dims:], kernel_size, stride or kernel_size, padding, dilation, ceil_mode
        )

        def take(array, fill, dim, place):
            return at_place(array, array.ndim - dims + dim, place, windows[dim], fill)

        return _max_pool(self, dims, [window.kernel for window in windows], take)

    return max_pool_with_indices


lowering(aten.max_pool2d_with_indices.default)(_max_pool_with_indices(2))
lowering(aten.max_pool3d_with_indices.default)(_max_pool_with_indices(3))


def _flat_planes(array, dims):
    """(planes, positions)"""
    return array.reshape(*(math.prod(part) for part in (array.shape[:-dims], array.shape[-dims:])))


def _scattered(values, indices, shape, dims, accumulate):
    """Zeros of a shape with the values at their flat indices within each plane."""
    values, indices = (_flat_planes(array, dims) for array in (values, indices))
    zeros = jnp.zeros((values.shape[0], math.prod(shape[-dims:])), values.dtype)
    places = zeros.at[jnp.arange(values.shape[0])[:, None], indices.astype(jnp.int32)]
    filled = (places.add if accumulate else places.set)(values, mode="drop")
    return filled.reshape(shape)


def _gathered(grad, indices, shape, windows):
    """Each position's share of the windows that chose it."""
    sizes = shape[-len(windows) :]
    flat = lax.iota(jnp.int32, math.prod(sizes)).reshape(sizes)
    strides = [window.stride for window in windows]
    # Whole strides, so that each phase has as many positions.
    over = [(0, -size % stride) for size, stride in zip(sizes, strides, strict=True)]
    flat = jnp.pad(flat, over)
    indices = indices.astype(jnp.int32)
    zero = jnp.zeros((), grad.dtype)

    def share(pads, phase):
        positions = lax.slice(flat, phase, flat.shape, strides)
        chosen = lax.pad(indices, jnp.int32(-1), pads) == positions
        return jnp.where(chosen, lax.pad(grad, zero, pads), zero)

    return by_position(shape, windows, share)


def _max_pool_with_indices_backward(dims):
    def max_pool_with_indices_backward(
        grad_output, self, kernel_size, stride, padding, dilation, ceil_mode, indices
    ):
        (grad,) = promote(grad_output)
        windows = sliding(
            self.shape[-dims:], kernel_size, stride or kernel_size, padding, dilation, ceil_mode
        )
        parts = (max(window.kernel, window.stride) for window in windows)
        if grad.size == 0 or math.prod(parts) > _MOST_PLACES:
            return _scattered(grad, indices, self.shape, dims, True)
        return _gathered(grad, indices, self.shape, windows)

    return max_pool_with_indices_backward


lowering(aten.max_pool2d_with_indices_backward.default)(_max_pool_with_indices_backward(2))
lowering(aten.max_pool3d_with_indices_backward.default)(_max_pool_with_indices_backward(3))


@lowering(aten.adaptive_max_pool2d.default, aten.adaptive_max_pool3d.default)
def adaptive_max_pool(self, output_size):
    dims = len(output_size)
    sizes = self.shape[-dims:]
    if 0 in (*self.shape, *output_size):
        shape = (*self.shape[:-dims], *output_size)
        return jnp.zeros(shape, self.dtype), jnp.zeros(shape, jnp.int64)
    if all(size % count == 0 for size, count in zip(sizes, output_size, strict=True)):
        kernels = [size // count for size, count in zip(sizes, output_size, strict=True)]
        return _max_pool_with_indices(dims)(self, kernels)
    bounds = [adaptive_bounds(size, n) for size, n in zip(sizes, output_size, strict=True)]

    def take(array, fill, dim, place):
        # Beyond a shorter window's end its last element again: it changes nothing.
        starts, ends = bounds[dim]
        return jnp.take(array, np.minimum(starts + place, ends - 1), axis=dim - dims)

    return _max_pool(self, dims, [max(ends - starts) for starts, ends in bounds], take)


def _indexed_backward(dims):
    def backward(grad_output, self, *arguments):
        (grad,) = promote(grad_output)
        return _scattered(grad, arguments[-1], self.shape, dims, True)

    return backward


for _dims, _overloads in (
    (2, (aten.adaptive_max_pool2d_backward.default, aten.fractional_max_pool2d_backward.default)),
    (3, (aten.adaptive_max_pool3d_backward.default, aten.fractional_max_pool3d_backward.default)),
):
    lowering(*_overloads)(_indexed_backward(_dims))


def _drawn_starts(samples, size, kernel, count):
    """Where fractional pooling's windows start, from one sample for each plane."""
    if count == 1:
        return jnp.full((*samples.shape, 1), size - kernel)
    samples = samples[..., None]
    step = jnp.asarray(size - kernel, samples.dtype) / jnp.asarray(count - 1, samples.dtype)
    places = jnp.arange(count - 1).astype(samples.dtype)
    starts = ((places + samples) * step).astype(jnp.int32) - (samples * step).astype(jnp.int32)
    last = jnp.full((*samples.shape[:-1], 1), size - kernel, jnp.int32)
    return jnp.concatenate([starts, last], axis=-1)


def _fractional_max_pool(dims):
    def fractional_max_pool(self, kernel_size, output_size, random_samples):
        batched = self if self.ndim == dims + 2 else self[None]
        kernels, counts = per_dim(kernel_size, dims), per_dim(output_size, dims)
        # PyTorch draws (width, height) for images but (depth, height, width) for volumes.
        order = (1, 0) if dims == 2 else (0, 1, 2)
        starts = [
            _drawn_starts(random_samples[..., order[dim]], batched.shape[2 + dim], kernel, count)
            for dim, (kernel, count) in enumerate(zip(kernels, counts, strict=True))
        ]

        def take(array, fill, dim, place):
            at = (starts[dim] + place).reshape(
                *starts[dim].shape[:2], *(counts[dim] if axis == dim else 1 for axis in range(dims))
            )
            return jnp.take_along_axis(array, at, axis=2 + dim)

        values, indices = _max_pool(batched, dims, kernels, take)
        shape = (*self.shape[:-dims], *counts)
        return values.reshape(shape), indices.reshape(shape)

    return fractional_max_pool


lowering(aten.fractional_max_pool2d.default)(_fractional_max_pool(2))
lowering(aten.fractional_max_pool3d.default)(_fractional_max_pool(3))


def _max_unpool(self, indices, output_size):
    dims = len(output_size)
    count = math.prod(output_size)
    size = "x".join(map(str, output_size))
    check(
        (indices >= 0) & (indices < count),
        f"Found an invalid max index (output volumes are of size {size})",
        RuntimeError,
    )
    return _scattered(self, indices, (*self.shape[:-dims], *output_size), dims, False)


@lowering(aten.max_unpool2d.default)
def max_unpool2d(self, indices, output_size):
    return _max_unpool(self, indices, output_size)


@lowering(aten.max_unpool3d.default)
def max_unpool3d(self, indices, output_size, stride, padding):
    return _max_unpool(self, indices, output_size)
