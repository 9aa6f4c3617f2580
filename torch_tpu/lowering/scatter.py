"""gather and the scatter family: one position along a dim for every element of an index tensor."""

import jax.numpy as jnp
import torch
from jax import lax

from torch_tpu.lowering import sizes
from torch_tpu.lowering.indexing import (
    at_least_1d,
    out_of_bounds,
    places_dtype,
    positions,
    put_at,
    reduce_at,
    to_write,
)
from torch_tpu.lowering.registry import lowering

aten = torch.ops.aten


def _checked(size, dim, index):
    return positions(index, size, out_of_bounds(dim, size), error=RuntimeError)


def _cut(array, shape):
    """The leading part of every dim."""
    return array[tuple(slice(0, size) for size in shape)]


@lowering(aten.gather.default)
def gather(self, dim, index, *, sparse_grad=False):
    array, index_1d = at_least_1d(self), at_least_1d(index)
    if index.size == 0:
        return jnp.zeros(index.shape, self.dtype)
    dim %= array.ndim
    places = _checked(sizes.size(array, dim), dim, index_1d)
    room = [array.shape[d] if d == dim else n for d, n in enumerate(index_1d.shape)]
    array = _cut(array, room)
    result = jnp.take_along_axis(array, places, axis=dim, mode="promise_in_bounds")
    return result.reshape(index.shape)


def _scatter_places(array, dim, index):
    """For every element of ``index`` the place in the array that it stands for."""
    places = to_write(_checked(sizes.size(array, dim), dim, index), index, array, dim)
    return tuple(
        places if d == dim else lax.broadcasted_iota(places_dtype(size), index.shape, d)
        for d, size in enumerate(index.shape)
    )


def _scattered(self, dim, index, src, update):
    """``update(array, places, values)`` for a tensor or a number ``src``."""
    if index.size == 0:
        return self
    array, index = at_least_1d(self), at_least_1d(index)
    places = _scatter_places(array, dim % array.ndim, index)
    if src.ndim or self.ndim == 0:
        src = _cut(at_least_1d(src), index.shape)
    return update(array, places, src).reshape(self.shape)


@lowering(aten.scatter.src, aten.scatter.value)
def scatter(self, dim, index, src):
    return _scattered(self, dim, index, src, put_at)


@lowering(aten.scatter.reduce, aten.scatter.value_reduce)
def scatter_with_reduction(self, dim, index, src, *, reduce):
    reduction = {"add": "sum", "multiply": "prod"}[reduce]
    return _scattered(self, dim, index, src, lambda *at: put_at(*at, reduction))


@lowering(aten.scatter_add.default)
def scatter_add(self, dim, index, src):
    return _scattered(self, dim, index, src, lambda *at: put_at(*at, "sum"))


@lowering(aten.scatter_reduce.two)
def scatter_reduce(self, dim, index, src, reduce, *, include_self=True):
    return _scattered(self, dim, index, src, lambda *at: reduce_at(*at, reduce, include_self))
