"""Running sums, products and extremes along a dimension."""

import jax.numpy as jnp
import torch
from jax import lax

from torch_tpu.lowering import reductions
from torch_tpu.lowering.platforms import by_platform
from torch_tpu.lowering.pointwise import log_add_exp
from torch_tpu.lowering.promotion import cast
from torch_tpu.lowering.registry import lowering

aten = torch.ops.aten


def _along(scan, self, dim):
    """A scan over an array or, as PyTorch allows, over a 0-dim one."""
    if self.ndim == 0:
        return scan(self.reshape(1), axis=0).reshape(())
    return scan(self, axis=dim % self.ndim)


def _terms(self, dtype):
    self = self if dtype is None else cast(self, dtype)
    if jnp.issubdtype(self.dtype, jnp.inexact):
        return reductions.to_opmath(self)
    return self.astype(jnp.int64)


# So many sums of 16 bits fit into 32.
_MOST_PARTS = 2**16


def _running_sum(terms, axis):
    """lax.cumsum; one of 64-bit integers takes libtpu 20 times as long to compile as of 32-bit."""

    def by_parts(terms):
        halves = (half.astype(jnp.uint32) for half in (terms, terms >> 32))
        parts = [part for half in halves for part in (half & 0xFFFF, half >> 16)]
        sums = [lax.cumsum(part, axis=axis).astype(jnp.int64) for part in parts]
        return sum(each * 2 ** (16 * place) for place, each in enumerate(sums))

    def whole(terms):
        return lax.cumsum(terms, axis=axis)

    if terms.dtype != jnp.int64 or terms.shape[axis] > _MOST_PARTS:
        return whole(terms)
    return by_platform(terms, tpu=by_parts, default=whole)


@lowering(aten.cumsum.default)
def cumsum(self, dim, *, dtype=None):
    return _along(_running_sum, _terms(self, dtype), dim)


@lowering(aten.cumprod.default)
def cumprod(self, dim, *, dtype=None):
    return _along(lax.cumprod, _terms(self, dtype), dim)


def _log_sums_in_turn(terms, axis):
    """Term by term: in another order the branches would differ from PyTorch's."""

    def step(total, term):
        total = log_add_exp(total, term)
        return total, total

    terms = jnp.moveaxis(terms, axis, 0)
    if terms.shape[0] == 0:
        return jnp.moveaxis(terms, 0, axis)
    totals = lax.scan(step, terms[0], terms[1:])[1]
    return jnp.moveaxis(jnp.concatenate([terms[:1], totals]), 0, axis)


def _log_sums(terms, axis):
    """As lax.cumlogsumexp, whose form on TPUs, a reduction of windows, libtpu aborts over."""
    return lax.associative_scan(jnp.logaddexp, terms, axis=axis)


@lowering(aten._logcumsumexp.default, aten.logcumsumexp.default)
def logcumsumexp(self, dim):
    self = reductions.to_opmath(self)
    scan = _log_sums_in_turn if jnp.iscomplexobj(self) else _log_sums
    return _along(scan, self, dim)


def _running_extreme(scan, self, dim):
    if self.ndim == 0:
        return self, jnp.int32(0)
    axis = dim % self.ndim
    ordered = self.astype(jnp.int8) if self.dtype == jnp.bool_ else self
    extreme = scan(ordered, axis=axis)
    # An element takes over when it equals the running extreme: of equal ones the last, as PyTorch.
    hits = (ordered == extreme) | (ordered != ordered)
    place = lax.broadcasted_iota(jnp.int32, self.shape, axis)
    return extreme, lax.cummax(jnp.where(hits, place, 0), axis=axis)


@lowering(aten.cummax.default)
def cummax(self, dim):
    return _running_extreme(lax.cummax, self, dim)


@lowering(aten.cummin.default)
def cummin(self, dim):
    return _running_extreme(lax.cummin, self, dim)


@lowering(aten._cummax_helper.default)
def _cummax_helper(self, values, indices, dim):
    return cummax(self, dim)


@lowering(aten._cummin_helper.default)
def _cummin_helper(self, values, indices, dim):
    return cummin(self, dim)
