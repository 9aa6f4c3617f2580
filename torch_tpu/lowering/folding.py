"""Sliding windows to columns and back (``unfold``, ``fold``)."""

import jax
import jax.numpy as jnp
import torch
from jax import lax

from torch_tpu.lowering.promotion import promote
from torch_tpu.lowering.registry import lowering

aten = torch.ops.aten


def _windows(self, dim, kernel_size, dilation, padding, stride):
    """Split a dim into (place in the window, window)."""
    widths = [(padding, padding, 0) if axis == dim else (0, 0, 0) for axis in range(self.ndim)]
    self = lax.pad(self, jnp.zeros((), self.dtype), widths)
    count = (self.shape[dim] - dilation * (kernel_size - 1) - 1) // stride + 1
    if stride == kernel_size and dilation == 1:
        # Windows that tile the dim are a reshape; patch embeddings are of this kind.
        self = lax.slice_in_dim(self, 0, count * stride, axis=dim)
        shape = (*self.shape[:dim], count, kernel_size, *self.shape[dim + 1 :])
        return jnp.swapaxes(self.reshape(shape), dim, dim + 1)
    places = [
        lax.slice_in_dim(self, start, start + (count - 1) * stride + 1, stride, axis=dim)
        for start in range(0, kernel_size * dilation, dilation)
    ]
    return jnp.stack(places, axis=dim)


def _columns(self, kernel_size, dilation, padding, stride):
    batch, channels = self.shape[:2]
    rows = _windows(self, 2, kernel_size[0], dilation[0], padding[0], stride[0])
    both = _windows(rows, 4, kernel_size[1], dilation[1], padding[1], stride[1])
    both = jnp.transpose(both, (0, 1, 2, 4, 3, 5))  # N, C, kernel, window
    windows = both.shape[4] * both.shape[5]
    return both.reshape(batch, channels * kernel_size[0] * kernel_size[1], windows)


def _pair(value):
    """An int[2] argument; the schema lets one number stand for both."""
    return tuple(value) * (2 // len(value))


@lowering(aten.im2col.default)
def im2col(self, kernel_size, dilation, padding, stride):
    batched = self if self.ndim == 4 else self[None]
    columns = _columns(batched, *map(_pair, (kernel_size, dilation, padding, stride)))
    return columns if self.ndim == 4 else columns[0]


@lowering(aten.col2im.default)
def col2im(self, output_size, kernel_size, dilation, padding, stride):
    (columns,) = promote(self if self.ndim == 3 else self[None])
    window = [_pair(value) for value in (kernel_size, dilation, padding, stride)]
    channels = columns.shape[1] // (window[0][0] * window[0][1])
    shape = (columns.shape[0], channels, *_pair(output_size))
    image = jax.ShapeDtypeStruct(shape, columns.dtype)
    (folded,) = jax.linear_transpose(lambda x: _columns(x, *window), image)(columns)
    return folded if self.ndim == 3 else folded[0]
