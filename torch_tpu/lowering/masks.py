"""Selection by masks, positions of non-zero elements, and repetition by counts."""

import math

import jax.numpy as jnp
import torch
from jax import lax

from torch_tpu.lowering.checks import check
from torch_tpu.lowering.indexing import get, places_dtype, true_places, unravel
from torch_tpu.lowering.registry import lowering

aten = torch.ops.aten


def count_true(mask):
    return jnp.sum(mask, dtype=places_dtype(mask.size))


# What messages call the dtypes that hold far less than what they may be filled with.
_NARROW = {
    "uint8": "uint8_t",
    "int8": "int8_t",
    "int16": "int16_t",
    "int32": "int",
    "int64": "int64_t",
    "float16": "c10::Half",
}
_REAL = _NARROW | {"bfloat16": "c10::BFloat16", "float32": "float", "float64": "double"}


@lowering(aten.masked_fill.Scalar, aten.masked_fill.Tensor)
def masked_fill(self, mask, value):
    value = jnp.asarray(value)
    # A float that is filled with too large a float gets infinity: attention's masks go unchecked.
    name = (_REAL if jnp.iscomplexobj(value) else _NARROW).get(str(self.dtype))
    if name is not None and value.dtype not in (self.dtype, jnp.bool_):
        message = f"value cannot be converted to type {name} without overflow"
        check(_fits(value, self.dtype), message, RuntimeError)
    return jnp.where(mask.astype(bool), value.astype(self.dtype), self)


def _fits(value, dtype):
    """Whether a dtype holds a number, its fraction aside."""
    if jnp.iscomplexobj(value):
        return (value.imag == 0) & _fits(value.real, dtype)
    if jnp.issubdtype(dtype, jnp.floating):
        return ~jnp.isfinite(value) | (jnp.abs(value) <= jnp.finfo(dtype).max)
    limits = jnp.iinfo(dtype)
    if jnp.issubdtype(value.dtype, jnp.integer):
        lowest = limits.min if limits.min else -limits.max  # negative integers wrap around
        return (value >= lowest) & (value <= limits.max)
    value = value.astype(jnp.float64)
    return (value >= limits.min) & (value <= limits.max)


def _order(mask):
    """For every true element of a flat mask its rank among the true ones."""
    return lax.cumsum(mask.astype(places_dtype(mask.size))) - 1


@lowering(aten.masked_scatter.default)
def masked_scatter(self, mask, source):
    self, mask = jnp.broadcast_arrays(self, mask.astype(bool))
    if source.size == 0 or self.size == 0:
        check(~mask, "masked_scatter: source has too few elements", RuntimeError)
        return self
    order = _order(mask.reshape(-1))
    fits = order[-1] < source.size
    check(fits, "Number of elements of source < number of ones in mask", RuntimeError)
    order = jnp.clip(order, 0, source.size - 1)
    chosen = get(source.reshape(-1), (order,)).reshape(self.shape)
    return jnp.where(mask, chosen.astype(self.dtype), self)


@lowering(aten.masked_scatter_backward.default)
def masked_scatter_backward(grad_output, mask, sizes):
    grad_output, mask = jnp.broadcast_arrays(grad_output, mask.astype(bool))
    count, mask = math.prod(sizes), mask.reshape(-1)
    target = jnp.where(mask, _order(mask), count)
    grad = jnp.zeros(count, grad_output.dtype)
    return grad.at[target].set(grad_output.reshape(-1), mode="drop").reshape(sizes)


def _selected_count(self, mask):
    self, mask = jnp.broadcast_arrays(self, mask.astype(bool))
    return count_true(mask)


@lowering(aten.masked_select.default, size=_selected_count)
def masked_select(self, mask, *, size):
    self, mask = jnp.broadcast_arrays(self, mask.astype(bool))
    if self.size == 0:
        return jnp.zeros(size, self.dtype)
    return get(self.reshape(-1), (true_places(mask, size),))


def _columns(places, dims):
    """Flat positions as rows of one int64 position per dim."""
    if not dims:
        return jnp.zeros((places.shape[0], 0), jnp.int64)
    return jnp.stack(unravel(places, dims), axis=1).astype(jnp.int64)


@lowering(aten.nonzero.default, size=lambda self: count_true(self != 0))
def nonzero(self, *, size):
    if self.size == 0:
        return jnp.zeros((size, self.ndim), jnp.int64)
    return _columns(true_places(self != 0, size), self.shape)


@lowering(aten.nonzero_static.default)
def nonzero_static(self, *, size, fill_value=-1):
    if self.size == 0:
        return jnp.full((size, self.ndim), fill_value, jnp.int64)
    places = _columns(true_places(self != 0, size), self.shape)
    given = jnp.arange(size) < count_true(self != 0)
    return jnp.where(given[:, None], places, fill_value)


def repeated(counts, length):
    """0 ``counts[0]`` times, 1 ``counts[1]`` times, ...: ``length`` int32 or int64 numbers."""
    dtype = places_dtype(max(length, counts.size))
    ends = lax.cumsum(counts.astype(dtype))
    steps = jnp.zeros(length, dtype).at[ends].add(1, mode="drop", wrap_negative_indices=False)
    return jnp.minimum(lax.cumsum(steps), counts.size - 1)


def _repeated_length(repeats, *, output_size=None):
    if output_size is not None:
        return None
    return jnp.sum(jnp.maximum(repeats, 0), dtype=jnp.int64)  # the rule refuses negative ones


@lowering(aten.repeat_interleave.Tensor, size=_repeated_length)
def repeat_interleave(repeats, *, output_size=None, size=None):
    check(repeats >= 0, "repeats can not be negative", RuntimeError)
    if repeats.size == 0:
        return jnp.zeros(size if output_size is None else output_size, jnp.int64)
    if output_size is not None:
        same = jnp.sum(repeats, dtype=jnp.int64) == output_size
        check(same, "allocated size does not match required size", RuntimeError)
        size = output_size
    return repeated(repeats, size).astype(jnp.int64)
