"""Rows of several lengths, one after the other in an array, and the same rows padded.

Row ``b`` is ``values[offsets[b] : offsets[b + 1]]``.
"""

import jax.numpy as jnp
import torch

from torch_tpu.lowering.checks import check
from torch_tpu.lowering.registry import lowering

aten = torch.ops.aten


def _only(per_dim, op):
    if len(per_dim) != 1:
        raise ValueError(f"{op}(): only a single jagged dim is supported for now")
    return per_dim[0]


@lowering(aten._jagged_to_padded_dense_forward.default)
def _jagged_to_padded_dense_forward(values, offsets, max_lengths, padding_value=0.0):
    offsets = _only(offsets, "_jagged_to_padded_dense_forward")
    within = jnp.arange(_only(max_lengths, "_jagged_to_padded_dense_forward"))
    places = offsets[:-1, None] + within
    rows = jnp.take(values, places, axis=0, mode="clip")
    is_value = (places < offsets[1:, None]).reshape(places.shape + (1,) * (values.ndim - 1))
    return jnp.where(is_value, rows, padding_value.astype(values.dtype))


def _length_of_all(dense, offsets, total_L=None):
    return None if total_L is not None else _only(offsets, "_padded_dense_to_jagged_forward")[-1]


@lowering(aten._padded_dense_to_jagged_forward.default, size=_length_of_all)
def _padded_dense_to_jagged_forward(dense, offsets, total_L=None, *, size=None):
    name, longest = "_padded_dense_to_jagged_forward()", dense.shape[1]
    offsets = _only(offsets, "_padded_dense_to_jagged_forward")
    if total_L is not None:
        same = offsets[-1] == total_L
        check(same, f"{name}: final offset should match total_L value", RuntimeError)
    fits = jnp.diff(offsets) <= longest
    check(fits, f"{name}: a row is longer than the padded input, {longest}", RuntimeError)
    places = jnp.arange(size if total_L is None else total_L, dtype=offsets.dtype)
    row = jnp.searchsorted(offsets, places, side="right", method="scan_unrolled") - 1
    row = jnp.clip(row, 0, dense.shape[0] - 1)
    column = places - offsets[row]
    return dense[row, jnp.clip(column, 0, max(longest - 1, 0))]
