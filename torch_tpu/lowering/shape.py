"""Joining, repeating, reordering, padding and triangles."""

import math
import operator

import jax.numpy as jnp
import torch
from jax import lax

from torch_tpu.lowering import dtypes, sizes
from torch_tpu.lowering.promotion import result_type
from torch_tpu.lowering.registry import lowering

aten = torch.ops.aten


@lowering(aten.cat.default)
def cat(tensors, dim=0):
    dtype = dtypes.to_jax(result_type(*tensors))
    # A vector of no elements joins anything, whatever the other dims: an old promise of PyTorch.
    joined = [tensor for tensor in tensors if tensor.shape != (0,)]
    if not joined:
        return jnp.zeros(0, dtype)
    dim %= joined[0].ndim
    if any(dim in sizes.dynamic_dims(tensor) for tensor in joined):
        return _joined_at_true_places(joined, dim, dtype)
    arrays = [tensor.astype(dtype) for tensor in joined]
    return arrays[0] if len(arrays) == 1 else lax.concatenate(arrays, dim)


def _joined_at_true_places(tensors, dim, dtype):
    """Each tensor written over the padding of the one before."""
    shape = list(tensors[0].shape)
    shape[dim] = sum(tensor.shape[dim] for tensor in tensors)
    whole, place = jnp.zeros(shape, dtype), 0
    for tensor in tensors:
        whole = lax.dynamic_update_slice_in_dim(whole, tensor.astype(dtype), place, dim)
        place += sizes.size(tensor, dim)
    return whole


@lowering(aten.stack.default, aten._stack.default)
def stack(tensors, dim=0):
    dtype = dtypes.to_jax(result_type(*tensors))
    return jnp.stack([tensor.astype(dtype) for tensor in tensors], axis=dim)


@lowering(aten.block_diag.default)
def block_diag(tensors):
    dtype = dtypes.to_jax(result_type(*tensors))
    blocks = [jnp.atleast_2d(tensor).astype(dtype) for tensor in tensors]
    width = sum(block.shape[1] for block in blocks)
    rows, before = [], 0
    for block in blocks:
        rows.append(jnp.pad(block, ((0, 0), (before, width - before - block.shape[1]))))
        before += block.shape[1]
    return jnp.concatenate(rows)


@lowering(aten.flip.default)
def flip(self, dims):
    if self.ndim == 0:
        return self
    dims = [dim % self.ndim for dim in dims]
    reverse = lax.rev(self, dims)
    for dim in set(dims).intersection(sizes.dynamic_dims(self)):
        reverse = sizes.from_place(reverse, self.shape[dim] - sizes.size(self, dim), dim)
    return reverse


@lowering(aten.roll.default)
def roll(self, shifts, dims=()):
    if self.size == 0:
        return self
    if not dims:
        return sizes.reshape(_rolled(sizes.flat(self), shifts[0], 0), sizes.sizes_of(self))
    for shift, dim in zip(shifts, dims, strict=True):
        self = _rolled(self, shift, dim % self.ndim)
    return self


def _rolled(array, shift, dim):
    if dim in sizes.dynamic_dims(array):
        place = lax.iota(jnp.int32, array.shape[dim]) - jnp.int32(shift)
        places = jnp.remainder(place, sizes.size(array, dim))
        return sizes.like(jnp.take(array, places, axis=dim, mode="clip"), array)
    cut = -shift % array.shape[dim]
    if cut == 0:
        return array
    head = lax.slice_in_dim(array, 0, cut, axis=dim)
    joined = lax.concatenate([lax.slice_in_dim(array, cut, None, axis=dim), head], dim)
    return sizes.like(joined, array)


@lowering(aten.rot90.default)
def rot90(self, k=1, dims=(0, 1)):
    return jnp.rot90(self, k, tuple(dims))


@lowering(aten.repeat.default)
def repeat(self, repeats):
    own = (1,) * (len(repeats) - self.ndim) + sizes.sizes_of(self)
    pairs = [n for size in own for n in (1, size)]
    spread = [n for pair in zip(repeats, own, strict=True) for n in pair]
    result = [count * size for count, size in zip(repeats, own, strict=True)]
    columns = self.reshape(tuple(map(operator.index, pairs)))
    columns = sizes.sized(jnp.broadcast_to(columns, tuple(map(operator.index, spread))), spread)
    return sizes.reshape(columns, result)


@lowering(aten.constant_pad_nd.default)
def constant_pad_nd(self, pad, value=0):
    low, high = list(pad[0::2])[::-1], list(pad[1::2])[::-1]
    untouched = self.ndim - len(low)
    room = [(0, 0, 0)] * untouched + [(a, b, 0) for a, b in zip(low, high, strict=True)]
    value = jnp.asarray(value).astype(self.dtype)
    return lax.pad(sizes.filled(self, value), value, room)


# Channels and pixels


@lowering(aten.pixel_shuffle.default)
def pixel_shuffle(self, upscale_factor):
    *batch, channels, height, width = self.shape
    r = upscale_factor
    split = self.reshape(*batch, channels // r**2, r, r, height, width)
    moved = _permute_last(split, (0, 3, 1, 4, 2))
    return moved.reshape(*batch, channels // r**2, height * r, width * r)


@lowering(aten.pixel_unshuffle.default)
def pixel_unshuffle(self, downscale_factor):
    *batch, channels, height, width = self.shape
    r = downscale_factor
    split = self.reshape(*batch, channels, height // r, r, width // r, r)
    moved = _permute_last(split, (0, 2, 4, 1, 3))
    return moved.reshape(*batch, channels * r**2, height // r, width // r)


def _permute_last(array, order):
    """The last dims permuted, those before them left where they are."""
    leading = array.ndim - len(order)
    return lax.transpose(array, (*range(leading), *(leading + place for place in order)))


@lowering(aten.channel_shuffle.default)
def channel_shuffle(self, groups):
    batch, channels, *rest = self.shape
    split = self.reshape(batch, groups, channels // groups, *rest)
    return jnp.swapaxes(split, 1, 2).reshape(self.shape)


# Triangles and diagonals


def _column_minus_row(shape, offset):
    """For every element of a matrix its column less its row less ``offset``."""
    rows, columns = (lax.broadcasted_iota(jnp.int32, shape[-2:], axis) for axis in (0, 1))
    if isinstance(offset, sizes.Size):
        return columns - rows - offset.value
    # Every offset beyond the matrix selects the same triangle.
    bound = sum(shape[-2:]) + 1
    return columns - rows - max(-bound, min(bound, offset))


@lowering(aten.tril.default)
def tril(self, diagonal=0):
    return jnp.where(_column_minus_row(self.shape, diagonal) <= 0, self, jnp.zeros_like(self))


@lowering(aten.triu.default)
def triu(self, diagonal=0):
    return jnp.where(_column_minus_row(self.shape, diagonal) >= 0, self, jnp.zeros_like(self))


@lowering(aten.diag_embed.default)
def diag_embed(self, offset=0, dim1=-2, dim2=-1):
    *batch, length = self.shape
    size = length + abs(offset)
    room = [(0, 0)] * len(batch) + [(max(0, -offset), max(0, offset))]
    rows = jnp.pad(self, room)[..., :, None]
    diagonal = _column_minus_row((size, size), offset) == 0
    matrix = jnp.where(diagonal, rows, jnp.zeros((), self.dtype))
    return jnp.moveaxis(matrix.reshape(*batch, size, size), (-2, -1), (dim1, dim2))


def triangle_size(row, column, offset, lower):
    """How many places the lower or upper triangle of a matrix has."""
    below = sum(max(0, min(column, r + offset + (1 if lower else 0))) for r in range(row))
    return below if lower else row * column - below


@lowering(aten.tril_indices.default)
def tril_indices(row, col, offset=0, *, dtype=None, layout=None, device=None, pin_memory=None):
    return _triangle_indices(row, col, offset, lower=True)


@lowering(aten.triu_indices.default)
def triu_indices(row, col, offset=0, *, dtype=None, layout=None, device=None, pin_memory=None):
    return _triangle_indices(row, col, offset, lower=False)


def _triangle_indices(row, column, offset, lower):
    size = triangle_size(row, column, offset, lower)
    if size == 0:
        return jnp.zeros((2, 0), jnp.int64)
    from_diagonal = _column_minus_row((row, column), offset)
    inside = from_diagonal <= 0 if lower else from_diagonal >= 0
    (places,) = jnp.nonzero(inside.reshape(-1), size=size)
    places = places.astype(jnp.int32 if math.prod((row, column)) < 2**31 else jnp.int64)
    return jnp.stack([places // column, places % column]).astype(jnp.int64)
