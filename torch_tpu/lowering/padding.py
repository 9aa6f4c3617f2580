"""Padding by reflection and by replication, and the gradients."""

import jax
import jax.numpy as jnp
import torch
from jax import lax

from torch_tpu.lowering.promotion import promote
from torch_tpu.lowering.registry import lowering

aten = torch.ops.aten


def _reflected(self, dim, before, after):
    """Mirror images without the edge itself on both sides of a dim; a negative amount crops."""
    size = self.shape[dim]
    parts = [self]
    if before > 0:
        parts.insert(0, lax.rev(lax.slice_in_dim(self, 1, before + 1, axis=dim), (dim,)))
    if after > 0:
        parts.append(lax.rev(lax.slice_in_dim(self, size - 1 - after, size - 1, axis=dim), (dim,)))
    return lax.concatenate(parts, dim)


def _replicated(self, dim, before, after):
    """The edges repeated on both sides of a dim; a negative amount crops."""
    size = self.shape[dim]
    parts = [self]
    if before > 0:
        parts.insert(0, _repeated(lax.slice_in_dim(self, 0, 1, axis=dim), dim, before))
    if after > 0:
        parts.append(_repeated(lax.slice_in_dim(self, size - 1, size, axis=dim), dim, after))
    return lax.concatenate(parts, dim)


def _repeated(edge, dim, times):
    return jnp.broadcast_to(edge, (*edge.shape[:dim], times, *edge.shape[dim + 1 :]))


def _pad(self, padding, extend):
    """Extend the last dims; ``padding`` holds (before, after) pairs, the last dim's first."""
    for place, (before, after) in enumerate(zip(padding[::2], padding[1::2], strict=True)):
        dim = self.ndim - 1 - place
        self = extend(self, dim, before, after)
        crop = self.shape[dim] - max(-after, 0)
        self = lax.slice_in_dim(self, max(-before, 0), crop, axis=dim)
    return self


def _pad_backward(grad_output, self, padding, extend):
    (grad_output,) = promote(grad_output)
    like = jax.ShapeDtypeStruct(self.shape, grad_output.dtype)
    (grad,) = jax.linear_transpose(lambda x: _pad(x, padding, extend), like)(grad_output)
    return grad


@lowering(
    aten.reflection_pad1d.default, aten.reflection_pad2d.default, aten.reflection_pad3d.default
)
def reflection_pad(self, padding):
    return _pad(self, padding, _reflected)


@lowering(
    aten.reflection_pad1d_backward.default,
    aten.reflection_pad2d_backward.default,
    aten.reflection_pad3d_backward.default,
)
def reflection_pad_backward(grad_output, self, padding):
    return _pad_backward(grad_output, self, padding, _reflected)


@lowering(
    aten.replication_pad1d.default, aten.replication_pad2d.default, aten.replication_pad3d.default
)
def replication_pad(self, padding):
    return _pad(self, padding, _replicated)


@lowering(
    aten.replication_pad1d_backward.default,
    aten.replication_pad2d_backward.default,
    aten.replication_pad3d_backward.default,
)
def replication_pad_backward(grad_output, self, padding):
    return _pad_backward(grad_output, self, padding, _replicated)
