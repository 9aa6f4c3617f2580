"""Reductions over consecutive segments of a dimension, with their gradients."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import torch
from jax import lax

from torch_tpu.lowering import reductions
from torch_tpu.lowering.checks import check
from torch_tpu.lowering.registry import lowering

aten = torch.ops.aten

_SUM_OF_LENGTHS = (
    "segment_reduce(): Expected all rows of lengths along axis to sum to "
    "data.size(lengths.dim()-1) when !unsafe."
)
_EMPTY = {"sum": 0.0, "mean": 0.0, "max": -np.inf, "min": np.inf, "prod": 1.0}


def _batched(function, axis):
    """A function of one row mapped over the dims before the axis, which lengths share."""
    for _ in range(axis):
        function = jax.vmap(function)
    return function


def _owners(offsets, length):
    """The segment of each row, and the number of segments for rows that no segment holds."""
    place = lax.iota(jnp.int32, length)
    segments = offsets.shape[0] - 1
    owner = jnp.sum(offsets[1:] <= place[:, None], axis=1, dtype=jnp.int32)
    return jnp.where(place < offsets[0], segments, owner)


def _offsets(lengths, offsets):
    if offsets is not None:
        return offsets.astype(jnp.int32)
    edge = jnp.zeros((*lengths.shape[:-1], 1), jnp.int32)
    return jnp.concatenate([edge, jnp.cumsum(lengths.astype(jnp.int32), axis=-1)], axis=-1)


def _column(values, data):
    """Values for rows shaped to go with data's trailing dims."""
    return values.reshape(values.shape + (1,) * (data.ndim - 1))


def _reduce_row(data, offsets, *, reduce, initial):
    owner = _owners(offsets, data.shape[0])
    start = _EMPTY[reduce] if initial is None else lax.convert_element_type(initial, data.dtype)
    total = jnp.full((offsets.shape[0] - 1, *data.shape[1:]), start, data.dtype).at[owner]
    combine = {"sum": total.add, "mean": total.add, "max": total.max, "min": total.min}
    result = (combine.get(reduce) or total.multiply)(data, mode="drop")
    if reduce == "mean":
        lengths = _column(jnp.diff(offsets), data)
        empty = np.nan if initial is None else result
        result = jnp.where(lengths == 0, empty, result / jnp.maximum(lengths, 1))
    return result


@lowering(aten.segment_reduce.default)
def segment_reduce(
    data, reduce, *, lengths=None, indices=None, offsets=None, axis=0, unsafe=False, initial=None
):
    if lengths is not None and not unsafe:
        check(lengths >= 0, "lengths contains negative value!", RuntimeError)
        check(jnp.sum(lengths, -1) == data.shape[axis], _SUM_OF_LENGTHS, RuntimeError)
    data = reductions.to_opmath(data)
    row = functools.partial(_reduce_row, reduce=reduce, initial=initial)
    return _batched(row, axis)(data, _offsets(lengths, offsets))


def _row_gradient(grad, output, data, offsets, *, reduce, initial):
    owner = _owners(offsets, data.shape[0])
    segments = offsets.shape[0] - 1
    inside = _column(owner < segments, data)

    def spread(values):
        return values.at[owner].get(mode="fill", fill_value=0)

    def gathered(values):
        return jnp.zeros(output.shape, values.dtype).at[owner].add(values, mode="drop")

    if reduce == "sum":
        slope = jnp.ones_like(data)
    elif reduce == "mean":
        slope = spread(_column(1 / jnp.maximum(jnp.diff(offsets), 1).astype(data.dtype), data))
    elif reduce in ("max", "min"):  # shared by the elements that are the extreme
        hits = ((data == spread(output)) | jnp.isnan(data)) & inside
        slope = hits / jnp.maximum(spread(gathered(hits.astype(data.dtype))), 1)
    else:  # the product of the others: by division, but for a zero
        zero = data == 0
        others = jnp.where(zero, 1, data)
        one = jnp.ones(output.shape, data.dtype)
        start = one if initial is None else one * lax.convert_element_type(initial, data.dtype)
        rest = spread(start.at[owner].multiply(others, mode="drop"))
        zeros = spread(gathered(zero.astype(jnp.int32)))
        slope = jnp.where(zeros - zero > 0, 0, rest / others)
    return jnp.where(inside, spread(grad) * slope, 0)


@lowering(aten._segment_reduce_backward.default)
def _segment_reduce_backward(
    grad, output, data, reduce, *, lengths=None, offsets=None, axis=0, initial=None
):
    grad, output, data = (reductions.to_opmath(each) for each in (grad, output, data))
    row = functools.partial(_row_gradient, reduce=reduce, initial=initial)
    return _batched(row, axis)(grad, output, data, _offsets(lengths, offsets))
