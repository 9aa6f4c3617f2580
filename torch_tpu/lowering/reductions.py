"""Sums, products, extremes and their places, and truth over dimensions."""

import math

import jax.numpy as jnp
import numpy as np
import torch
from jax import lax

from torch_tpu.lowering import dtypes, sizes
from torch_tpu.lowering.promotion import cast
from torch_tpu.lowering.registry import lowering

aten = torch.ops.aten


def axes(self, dim):
    """The reduced axes, none and an empty list both standing for all."""
    if self.ndim == 0:
        return ()
    if dim is None or dim == []:
        return tuple(range(self.ndim))
    dims = [dim] if isinstance(dim, int) else dim
    return tuple(each % self.ndim for each in dims)


def to_opmath(self):
    """The array in the dtype that PyTorch computes in: float32 for narrow floats."""
    return cast(self, dtypes.opmath(dtypes.to_torch(self.dtype)))


def _addends(self, dtype, dims):
    """What is summed: narrow floats widened, integers as int32 where that can't overflow."""
    if dtype is not None:
        self = cast(self, dtype)
    if jnp.issubdtype(self.dtype, jnp.inexact):
        return to_opmath(self)
    bits = 1 if self.dtype == jnp.bool_ else jnp.iinfo(self.dtype).bits
    fits = 2**bits * math.prod(self.shape[axis] for axis in dims) < 2**31
    return self.astype(jnp.int32 if fits else jnp.int64)


@lowering(aten.sum.default, aten.sum.dim_IntList)
def sum(self, dim=None, keepdim=False, *, dtype=None):
    dims = axes(self, dim)
    addends = _addends(self, dtype, dims)
    return jnp.sum(addends, dims, keepdims=keepdim, dtype=addends.dtype)


@lowering(aten.nansum.default)
def nansum(self, dim=None, keepdim=False, *, dtype=None):
    if jnp.issubdtype(self.dtype, jnp.floating):
        self = jnp.where(jnp.isnan(self), jnp.zeros_like(self), self)
    return sum(self, dim, keepdim, dtype=dtype)


@lowering(aten.mean.default, aten.mean.dim)
def mean(self, dim=None, keepdim=False, *, dtype=None):
    count = sizes.number(sizes.count(self, axes(self, dim)), np.float32)
    return sum(self, dim, keepdim, dtype=dtype) / count


@lowering(aten.prod.default, aten.prod.dim_int)
def prod(self, dim=None, keepdim=False, *, dtype=None):
    factors = self if dtype is None else cast(self, dtype)
    if jnp.issubdtype(factors.dtype, jnp.inexact):
        factors = to_opmath(factors)
    else:
        factors = sizes.like(factors.astype(jnp.int64), factors)
    dims = axes(self, dim)
    return jnp.prod(sizes.filled(factors, 1, dims), dims, keepdims=keepdim)


@lowering(aten.any.default, aten.any.dim, aten.any.dims)
def any(self, dim=None, keepdim=False):
    dims = _truth_axes(self, dim)
    return jnp.any(self != 0, dims, keepdims=keepdim)


@lowering(aten.all.default, aten.all.dim, aten.all.dims)
def all(self, dim=None, keepdim=False):
    dims = _truth_axes(self, dim)
    return jnp.all(sizes.filled(self, 1, dims) != 0, dims, keepdims=keepdim)


def _truth_axes(self, dim):
    # any and all alone read an empty list as it stands: nothing is reduced.
    return () if dim == [] else axes(self, dim)


@lowering(aten.amax.default, aten.max.default)
def amax(self, dim=None, keepdim=False):
    dims = axes(self, dim)
    return jnp.max(sizes.filled(self, sizes.lowest(self.dtype), dims), dims, keepdims=keepdim)


@lowering(aten.amin.default, aten.min.default)
def amin(self, dim=None, keepdim=False):
    dims = axes(self, dim)
    return jnp.min(sizes.filled(self, sizes.highest(self.dtype), dims), dims, keepdims=keepdim)


@lowering(aten.aminmax.default)
def aminmax(self, *, dim=None, keepdim=False):
    return amin(self, dim, keepdim), amax(self, dim, keepdim)


@lowering(aten._aminmax.default, aten._aminmax.dim)
def _aminmax(self, dim=None, keepdim=False):
    return aminmax(self, dim=dim, keepdim=keepdim)


def first_place(hits, dim, keepdim):
    """The first place along a dimension that is hit.

    Two plain reductions, of the extreme and of this, fuse and vectorise where XLA's reduction of
    (value, place) pairs does not.
    """
    if hits.ndim == 0:
        return jnp.int32(0)
    length = hits.shape[dim]
    place = lax.broadcasted_iota(jnp.int32, hits.shape, dim % hits.ndim)
    missed = jnp.int32(length - 1)
    return jnp.min(jnp.where(hits, place, missed), dim, keepdims=keepdim)


def _extreme(self, dim, keepdim, reduce):
    value = reduce(self, dim, True)
    hits = self == value
    if jnp.issubdtype(self.dtype, jnp.floating):
        hits |= jnp.isnan(self)  # the extreme is nan then, and the first nan its place
    place = first_place(hits, dim, keepdim)
    return value.reshape(place.shape), place


@lowering(aten.max.dim)
def max(self, dim, keepdim=False):
    return _extreme(self, dim, keepdim, amax)


@lowering(aten.min.dim)
def min(self, dim, keepdim=False):
    return _extreme(self, dim, keepdim, amin)


def _argument(self, dim, keepdim, reduce):
    if dim is not None:
        return _extreme(self, dim, keepdim, reduce)[1]
    place = _extreme(sizes.flat(self), 0, False, reduce)[1]
    return place.reshape((1,) * self.ndim if keepdim else ())


@lowering(aten.argmax.default)
def argmax(self, dim=None, keepdim=False):
    return _argument(self, dim, keepdim, amax)


@lowering(aten.argmin.default)
def argmin(self, dim=None, keepdim=False):
    return _argument(self, dim, keepdim, amin)


@lowering(aten.count_nonzero.default, aten.count_nonzero.dim_IntList)
def count_nonzero(self, dim=None):
    return sum(self != 0, dim)


@lowering(aten.logsumexp.default)
def logsumexp(self, dim, keepdim=False):
    if not jnp.issubdtype(self.dtype, jnp.inexact):
        self = cast(self, torch.get_default_dtype())
    self, dims = to_opmath(self), axes(self, dim)
    self = sizes.filled(self, -jnp.inf, dims)
    largest = jnp.max(self.real, dims, keepdims=True, initial=-jnp.inf)
    largest = jnp.where(jnp.isinf(largest), 0, largest)
    total = jnp.log(jnp.sum(jnp.exp(self - largest), dims, keepdims=True)) + largest
    return total if keepdim else jnp.squeeze(total, dims)


@lowering(aten.trace.default)
def trace(self):
    return sum(jnp.diagonal(self))


@lowering(aten.linalg_cross.default)
def linalg_cross(self, other, *, dim=-1):
    shape = jnp.broadcast_shapes(self.shape, other.shape)
    self, other = jnp.broadcast_to(self, shape), jnp.broadcast_to(other, shape)

    def turned(vectors, places):
        return jnp.roll(vectors, -places, dim)

    return turned(self, 1) * turned(other, 2) - turned(self, 2) * turned(other, 1)


@lowering(aten.hash_tensor.default)
def hash_tensor(self, dim=(), *, keepdim=False, mode=0):
    """The xor of all bits (mode 0, the only one): floats as float64's, the rest as int64's."""
    wide = jnp.float64 if jnp.issubdtype(self.dtype, jnp.floating) else jnp.int64
    words = self if self.dtype == jnp.uint64 else self.astype(wide)
    words = lax.bitcast_convert_type(words, jnp.uint64)
    dims = axes(self, list(dim))
    reduced = lax.reduce(words, np.uint64(0), lax.bitwise_xor, dims)
    return jnp.expand_dims(reduced, dims) if keepdim else reduced
