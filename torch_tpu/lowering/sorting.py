"""Sorting, the k largest, and searches in sorted sequences."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import torch
from jax import lax

from torch_tpu.lowering import sizes
from torch_tpu.lowering.promotion import promote
from torch_tpu.lowering.registry import lowering

aten = torch.ops.aten

# Below this many boundaries, comparing with all of them beats the gathers of a binary search.
_COMPARE_ALL = 64


def ascending(self, axis):
    """Values in order, equal ones as they stood, nans last, and the places they came from."""
    last = np.nan if jnp.issubdtype(self.dtype, jnp.floating) else sizes.highest(self.dtype)
    self = sizes.filled(self, last, (axis,))  # after its equals: the sort is stable
    place = lax.broadcasted_iota(jnp.int32, self.shape, axis)
    return lax.sort((self, place), dimension=axis, num_keys=1, is_stable=True)


@lowering(aten.sort.stable)
def sort_stable(self, *, stable=None, dim=-1, descending=False):
    if self.ndim == 0:
        return self, jnp.int32(0)
    axis = dim % self.ndim
    if not descending:
        return tuple(ascending(self, axis))
    # The mirror image of an ascending sort of the mirror image: equal values keep their order.
    self = sizes.filled(self, sizes.lowest(self.dtype), (axis,))
    values, places = (jnp.flip(each, axis) for each in ascending(jnp.flip(self, axis), axis))
    return values, self.shape[axis] - 1 - places


@lowering(aten.sort.default)
def sort(self, dim=-1, descending=False):
    return sort_stable(self, dim=dim, descending=descending)


def _largest_first(self, largest):
    """Keys whose largest come first in the order asked for, nans above all."""
    if jnp.issubdtype(self.dtype, jnp.floating):
        # XLA's order of nans goes by their sign.
        return jnp.where(jnp.isnan(self), np.nan, self if largest else -self)
    keys = self.astype(jnp.int32) if self.dtype == jnp.bool_ else self
    return keys if largest else ~keys


@lowering(aten.topk.default)
def topk(self, k, dim=-1, largest=True, sorted=True):
    if self.ndim == 0:
        return (self, jnp.int32(0)) if k else (jnp.zeros(0, self.dtype), jnp.zeros(0, jnp.int32))
    axis = dim % self.ndim
    if not largest and jnp.issubdtype(self.dtype, jnp.floating):
        # Of the smallest, nans are the last: no key for a search of the largest says so.
        return tuple(lax.slice_in_dim(each, 0, k, axis=axis) for each in ascending(self, axis))
    end = sizes.lowest if largest else sizes.highest
    last = jnp.moveaxis(sizes.filled(self, end(self.dtype), (axis,)), axis, -1)
    places = lax.top_k(_largest_first(last, largest), k)[1]
    values = jnp.take_along_axis(last, places, -1)
    return jnp.moveaxis(values, -1, axis), jnp.moveaxis(places, -1, axis)


def places(sequence, values, right):
    """How many of a sorted sequence come before each value, equal ones counted if ``right``."""

    def before(items):
        # Negated as PyTorch has it: every item comes before a nan.
        return ~(items > values) if right else ~(items >= values)

    length = sequence.shape[0]
    if length <= _COMPARE_ALL:
        items = sequence.reshape((length,) + (1,) * values.ndim)
        return jnp.sum(before(items), 0, dtype=jnp.int32)
    low = jnp.zeros(values.shape, jnp.int32)
    high = jnp.full(values.shape, length, jnp.int32)
    for _ in range(length.bit_length()):
        middle = (low + high) // 2
        items = sequence.at[middle].get(mode="clip")
        ahead = before(items) & (low < high)
        low, high = jnp.where(ahead, middle + 1, low), jnp.where(ahead, high, middle)
    return low


@lowering(aten.searchsorted.Tensor, aten.searchsorted.Scalar)
def searchsorted(sorted_sequence, self, *, out_int32=False, right=False, side=None, sorter=None):
    if sorter is not None:
        sorted_sequence = jnp.take_along_axis(sorted_sequence, sorter, -1)
    sequence, values = promote(sorted_sequence, self)
    search = functools.partial(places, right=right or side == "right")
    if sequence.ndim > 1:
        count = math.prod(sequence.shape[:-1])
        rows = [each.reshape(count, each.shape[-1]) for each in (sequence, values)]
        return jax.vmap(search)(*rows).reshape(values.shape)
    return search(sequence, values)


@lowering(aten.bucketize.Tensor, aten.bucketize.Scalar)
def bucketize(self, boundaries, *, out_int32=False, right=False):
    return searchsorted(boundaries, self, right=right)


@lowering(aten.isin.Tensor_Tensor)
def isin(elements, test_elements, *, assume_unique=False, invert=False):
    return jnp.isin(*promote(elements, test_elements), invert=invert)


@lowering(aten.isin.Tensor_Scalar)
def isin_scalar(elements, test_element, *, assume_unique=False, invert=False):
    return isin(elements, test_element, invert=invert)


@lowering(aten.isin.Scalar_Tensor)
def isin_of_scalar(element, test_elements, *, assume_unique=False, invert=False):
    return isin(element, test_elements, invert=invert)
