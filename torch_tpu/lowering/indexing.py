"""Indexing by tensors of positions along dims: index, index_put, the index_* family, take, put."""

import math

import jax.numpy as jnp
import torch
from jax import lax

from torch_tpu.lowering import sizes, views
from torch_tpu.lowering.checks import check
from torch_tpu.lowering.registry import lowering

aten = torch.ops.aten

OUT_OF_RANGE = "index out of range in self"


def places_dtype(count):
    """The narrowest dtype for positions below ``count``: 64-bit integers are slow on a TPU."""
    return jnp.int32 if sizes.is_traced(count) or count < 2**31 else jnp.int64


def positions(index, size, message, wrap=False, error=IndexError):
    """An index tensor as checked positions along a dim of ``size``; ``wrap`` admits negatives."""
    check((index >= (-size if wrap else 0)) & (index < size), message, error, value=index)
    index = index.astype(places_dtype(size))
    return jnp.where(index < 0, index + size, index) if wrap else index


def to_write(places, index, array, dim):
    """Positions along a dim to write at: for padding of the index one that is dropped."""
    return sizes.filled(sizes.like(places, index), array.shape[dim])


def out_of_bounds(dim, size):
    """The message for an index that is; of an open size the program knows the bound alone."""
    told = "" if sizes.is_traced(size) else f" with size {size}"
    return f"index {{value}} is out of bounds for dimension {dim}{told}"


def along(dim, index):
    """An indexing tuple that applies ``index`` to one dim."""
    return (slice(None),) * dim + (index,)


def get(array, places):
    """``array`` at checked places, without XLA's selects for those out of bounds."""
    return array.at[places].get(mode="promise_in_bounds", wrap_negative_indices=False)


def put_at(array, places, values, reduce=None):
    """``array`` with ``values`` set, or combined by ``reduce``, at places; others are dropped."""
    reference = array.at[places]
    values = jnp.asarray(values).astype(array.dtype)
    if array.dtype == jnp.bool_ and reduce is not None:
        reduce = {"sum": "amax", "prod": "amin"}.get(reduce, reduce)
    update = {
        None: reference.set,
        "sum": reference.add,
        "prod": reference.multiply,
        "amax": reference.max,
        "amin": reference.min,
    }[reduce]
    return update(values, mode="drop", wrap_negative_indices=False)


def _identity(reduce, dtype):
    """The value that a reduction leaves any other value unchanged by."""
    if reduce in ("sum", "mean", "prod"):
        return 1 if reduce == "prod" else 0
    if jnp.issubdtype(dtype, jnp.floating):
        return -jnp.inf if reduce == "amax" else jnp.inf
    if dtype == jnp.bool_:
        return reduce == "amin"
    limits = jnp.iinfo(dtype)
    return limits.min if reduce == "amax" else limits.max


def reduce_at(array, places, values, reduce, include_self):
    """What scatter_reduce and index_reduce do at places that may coincide."""
    if not include_self:
        array = put_at(array, places, _identity(reduce, array.dtype))
    if reduce != "mean":
        return put_at(array, places, values, reduce)
    total = put_at(array, places, values, "sum")
    count = jnp.full(array.shape, int(include_self), jnp.int32).at[places].add(1, mode="drop")
    count = jnp.maximum(count, 1).astype(total.dtype)
    return total / count if jnp.issubdtype(total.dtype, jnp.inexact) else total // count


def at_least_1d(array):
    return array.reshape(1) if array.ndim == 0 else array


# Boolean masks as indices


def is_mask(index):
    return index is not None and index.dtype in (jnp.bool_, jnp.uint8)


def true_places(mask, size):
    """The flat positions of the true elements in order, padded with zeros or cut to ``size``."""
    mask = mask.reshape(-1).astype(bool)
    order = lax.cumsum(mask.astype(places_dtype(mask.size))) - 1
    target = jnp.where(mask, order, size)
    places = jnp.arange(mask.size, dtype=order.dtype)
    return jnp.zeros(size, order.dtype).at[target].set(places, mode="drop")


def unravel(places, dims):
    """Flat positions as one array of positions per dim."""
    units = [math.prod(dims[dim + 1 :]) for dim in range(len(dims))]
    return [places // unit % size for unit, size in zip(units, dims, strict=True)]


def _true_count(mask):
    return jnp.sum(mask.astype(bool), dtype=places_dtype(mask.size))


def _masked_length(self, indices):
    """The length that masks among the indices give the result; None without masks."""
    if not any(is_mask(index) for index in indices):
        return None
    lengths = [
        _true_count(index) if is_mask(index) else jnp.int32(index.shape[-1])
        for index in indices
        if index is not None and index.ndim
    ]
    lengths = jnp.stack([length.astype(jnp.int64) for length in lengths])
    return jnp.where(jnp.min(lengths) == 0, 0, jnp.max(lengths))


def _places(self, indices, size, writes=False):
    """The indices as an indexing tuple, masks expanded to ``size`` positions along each dim.

    A mask with a single true element stands for all positions, as an index of length 1 does.
    """
    places = []
    for index in indices:
        if index is None:
            places.append(slice(None))
        elif is_mask(index):
            flat = true_places(index, size)
            flat = jnp.where(_true_count(index) == 1, flat[:1] if size else flat, flat)
            places += unravel(flat, index.shape)
        else:
            dim = len(places)
            given, length = index, sizes.size(self, dim)
            index = positions(given, length, out_of_bounds(dim, length), wrap=True)
            index = to_write(index, given, self, dim) if writes else index
            if size is not None and index.ndim and 1 != index.shape[-1] < size:
                room = [(0, 0)] * (index.ndim - 1) + [(0, size - index.shape[-1])]
                index = jnp.pad(index, room)
            places.append(index)
    return tuple(places)


@lowering(aten.index.Tensor, aten._unsafe_index.Tensor, size=_masked_length)
def index(self, indices, *, size=None):
    return get(self, _places(self, indices, size))


def _put_masked(self, mask, leading, values, accumulate):
    """index_put through one mask: a select, no positions, and no wait for the mask's count."""
    trailing = self.ndim - leading - mask.ndim
    mask = mask.astype(bool)
    spread = mask.reshape((1,) * leading + mask.shape + (1,) * trailing)
    values = values.reshape((1,) * (leading + 1 + trailing - values.ndim) + values.shape)
    if values.shape[leading] == 1:
        ones = (1,) * mask.ndim
        values = values.reshape(values.shape[:leading] + ones + values.shape[leading + 1 :])
    else:
        order = lax.cumsum(mask.reshape(-1).astype(places_dtype(mask.size))) - 1
        order = jnp.clip(order, 0, values.shape[leading] - 1).reshape(mask.shape)
        values = get(values, along(leading, order))
    if accumulate:
        values = self | values if self.dtype == jnp.bool_ else self + values
    return jnp.where(spread, values, self)


@lowering(aten.index_put.default, aten._index_put_impl.default, aten._unsafe_index_put.default)
def index_put(self, indices, values, accumulate=False, unsafe=False):
    given = [index for index in indices if index is not None]
    if 0 in self.shape or 0 in values.shape:
        return self
    if len(given) == 1 and is_mask(given[0]):
        leading = next(place for place, index in enumerate(indices) if index is not None)
        return _put_masked(self, given[0], leading, values, accumulate)
    reduce = "sum" if accumulate else None
    masks = [index for index in given if is_mask(index)]
    if not masks:
        return put_at(self, _places(self, indices, None, writes=True), values, reduce)
    return _put_mixed(self, indices, values, reduce, masks)


def _put_mixed(self, indices, values, reduce, masks):
    """index_put through masks together with other indices; places past the count are dropped."""
    size = max(mask.size for mask in masks)
    length = _masked_length(self, indices)
    places = list(_places(self, indices, size))
    first = next(place for place, index in enumerate(places) if not isinstance(index, slice))
    beyond = jnp.arange(size) >= length
    places[first] = jnp.where(beyond, self.shape[first], places[first])
    walks = [place for place, index in enumerate(places) if not isinstance(index, slice)]
    adjacent = walks[-1] - walks[0] + 1 == len(walks)
    shape = jnp.broadcast_shapes(*(places[walk].shape for walk in walks))
    kept = [n for n, index in zip(self.shape, places, strict=False) if isinstance(index, slice)]
    kept += self.shape[len(places) :]
    # Where the dim of the index lies in ``values``, counted from its end.
    after = len(kept) - (walks[0] if adjacent else 0)
    dim = values.ndim - after - 1
    if dim >= 0 and values.shape[dim] not in (1, shape[-1]):
        room = [(0, 0)] * values.ndim
        room[dim] = (0, size - values.shape[dim])
        values = jnp.pad(values, room) if room[dim][1] > 0 else values
    return put_at(self, tuple(places), values, reduce)


@lowering(aten._unsafe_masked_index.default)
def _unsafe_masked_index(self, mask, indices, fill):
    places = _clamped_places(self, indices)
    # Where there is nothing to look at the mask is false or empty, and get has nothing to clamp to.
    rows = self if self.size else jnp.zeros([max(size, 1) for size in self.shape], self.dtype)
    return jnp.where(mask, get(rows, places), fill.astype(self.dtype))


@lowering(aten._unsafe_masked_index_put_accumulate.default)
def _unsafe_masked_index_put_accumulate(self, mask, indices, values):
    places = _clamped_places(self, indices)
    return put_at(self, places, jnp.where(mask, values, 0), "sum")


def _clamped_places(self, indices):
    sizes = self.shape[: len(indices)]
    return tuple(
        slice(None)
        if index is None
        else jnp.clip(index, -size, size - 1).astype(places_dtype(size)) % max(size, 1)
        for index, size in zip(indices, sizes, strict=True)
    )


# One dim


def _one_dim(self, dim, index):
    """The array with at least one dim, the dim counted from the front, the index as a vector."""
    array = at_least_1d(self)
    return array, dim % array.ndim, at_least_1d(index)


@lowering(aten.index_select.default)
def index_select(self, dim, index):
    array, dim, index = _one_dim(self, dim, index)
    places = positions(index, sizes.size(array, dim), OUT_OF_RANGE)
    result = get(array, along(dim, places))
    return result if self.ndim else result[0]  # of one index, whose length may be open


def _places_to_write(array, dim, index, message, error=IndexError):
    places = positions(index, sizes.size(array, dim), message, error=error)
    return along(dim, to_write(places, index, array, dim))


def _source(array, dim, index, source):
    """``source`` with as many dims as the array: a scalar for an index of length 1."""
    shape = array.shape[:dim] + index.shape + array.shape[dim + 1 :]
    return source.reshape(shape)


@lowering(aten.index_add.default)
def index_add(self, dim, index, source, *, alpha=1):
    array, dim, index = _one_dim(self, dim, index)
    refusal = (OUT_OF_RANGE,)
    if array.ndim > 1:  # where the CPU words it differently
        refusal = out_of_bounds(dim, sizes.size(array, dim)), RuntimeError
    places = _places_to_write(array, dim, index, *refusal)
    source = _source(array, dim, index, source) * jnp.asarray(alpha).astype(source.dtype)
    return put_at(array, places, source, "sum").reshape(self.shape)


@lowering(aten.index_copy.default)
def index_copy(self, dim, index, source):
    array, dim, index = _one_dim(self, dim, index)
    size = sizes.size(array, dim)
    message = f"index_copy_(): {out_of_bounds(dim, size)}"
    source = _source(array, dim, index, source)
    if index.size == 1 and not sizes.dynamic_dims(index) and views.writes_in_place():
        # As a cache takes one token after another: XLA writes it into a donated buffer.
        (place,) = positions(index, size, message)
        return lax.dynamic_update_slice_in_dim(array, source, place, dim).reshape(self.shape)
    places = _places_to_write(array, dim, index, message)
    return put_at(array, places, source).reshape(self.shape)


@lowering(aten.index_fill.int_Scalar, aten.index_fill.int_Tensor)
def index_fill(self, dim, index, value):
    array, dim, index = _one_dim(self, dim, index)
    size = array.shape[dim]
    length = sizes.size(array, dim)
    places = positions(index, length, out_of_bounds(dim, length), wrap=True)
    places = to_write(places, index, array, dim)
    filled = jnp.zeros(size, bool).at[places].set(True, mode="drop")
    filled = filled.reshape((size,) + (1,) * (array.ndim - dim - 1))
    return jnp.where(filled, value.astype(array.dtype), array).reshape(self.shape)


@lowering(aten.index_reduce.default)
def index_reduce(self, dim, index, source, reduce, *, include_self=True):
    array, dim, index = _one_dim(self, dim, index)
    places = _places_to_write(array, dim, index, OUT_OF_RANGE)
    source = _source(array, dim, index, source)
    return reduce_at(array, places, source, reduce, include_self).reshape(self.shape)


# The flattened tensor


def _flat_positions(self, index):
    message = f"out of range: tried to access index {{value}} on a tensor of {self.size} elements."
    return positions(index, sizes.count(self), message, wrap=True)


@lowering(aten.take.default)
def take(self, index):
    return get(sizes.flat(self), (_flat_positions(self, index),))


@lowering(aten.put.default)
def put(self, index, source, accumulate=False):
    flat, index = sizes.flat(self), sizes.flat(index)
    places = to_write(_flat_positions(self, index), index, flat, 0)
    reduce = "sum" if accumulate else None
    flat = sizes.like(put_at(flat, (places,), sizes.flat(source), reduce), flat)
    return sizes.reshape(flat, sizes.sizes_of(self))
