"""Rows looked up by index, alone and in bags, and their gradients."""

import jax.numpy as jnp
import torch

from torch_tpu.lowering import sizes
from torch_tpu.lowering.checks import check
from torch_tpu.lowering.indexing import (
    OUT_OF_RANGE,
    along,
    get,
    places_dtype,
    positions,
    put_at,
)
from torch_tpu.lowering.registry import lowering

aten = torch.ops.aten

SUM, MEAN, MAX = range(3)

FIRST_OFFSET = (
    "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start "
    "from position 0."
)


def _rows(weight, indices):
    return get(weight, along(0, positions(indices, sizes.size(weight, 0), OUT_OF_RANGE)))


def _compute_dtype(array):
    """Many rows may add up in one, so narrow gradients are summed in float32."""
    return jnp.promote_types(array.dtype, jnp.float32)


def _summed_rows(rows, indices, num_weights, padding_idx, scale_grad_by_freq):
    """Rows added where their index says; those of the padding index are left out."""
    dtype = places_dtype(num_weights + 1)
    places = indices.reshape(-1).astype(dtype)
    if scale_grad_by_freq:
        count = jnp.zeros(num_weights, jnp.int32).at[places].add(1, mode="drop")
        rows = rows / get(count, (places,))[:, None].astype(rows.dtype)
    if padding_idx >= 0:
        places = jnp.where(places == padding_idx, dtype(num_weights), places)
    table = jnp.zeros((num_weights, *rows.shape[1:]), rows.dtype)
    return put_at(table, (places,), rows, "sum")


@lowering(aten.embedding.default)
def embedding(weight, indices, padding_idx=-1, scale_grad_by_freq=False, sparse=False):
    return _rows(weight, indices)


@lowering(aten.embedding_dense_backward.default)
def embedding_dense_backward(grad_output, indices, num_weights, padding_idx, scale_grad_by_freq):
    rows = grad_output.reshape(indices.size, grad_output.shape[-1])
    rows = rows.astype(_compute_dtype(rows))
    indices = sizes.filled(indices, num_weights)  # padding is dropped
    return _summed_rows(rows, indices, num_weights, padding_idx, scale_grad_by_freq)


@lowering(aten.embedding_renorm.default, static=("norm_type",))
def embedding_renorm(self, indices, max_norm, norm_type):
    places = positions(indices.reshape(-1), self.shape[0], OUT_OF_RANGE)
    rows = get(self, (places,)).astype(_compute_dtype(self))
    norms = jnp.linalg.norm(rows, ord=norm_type, axis=1, keepdims=True)
    scale = jnp.where(norms > max_norm, max_norm / (norms + 1e-7), 1).astype(rows.dtype)
    # Equal indices write equal rows.
    return put_at(self, (places,), rows * scale)


# Bags


def _bags(offsets, count):
    """For every index the number of its bag."""
    dtype = places_dtype(max(count, offsets.size) + 1)
    starts = jnp.zeros(count, dtype).at[offsets].add(1, mode="drop")
    return jnp.cumsum(starts, dtype=dtype) - 1


def _bag_max(rows, bags, count, indices, counted):
    """The largest element per bag and column, and the index of the row it came from."""
    order = jnp.arange(rows.shape[0], dtype=jnp.int32)[:, None]
    rows = jnp.where(counted[:, None], rows, -jnp.inf)
    largest = jnp.full((count, rows.shape[1]), -jnp.inf, rows.dtype).at[bags].max(rows, mode="drop")
    winners = counted[:, None] & (rows == get(largest, (bags,)))
    beyond = jnp.int32(rows.shape[0])
    first = jnp.full(largest.shape, beyond, jnp.int32)
    first = first.at[bags].min(jnp.where(winners, order, beyond), mode="drop")
    found = first < beyond
    chosen = get(indices, (jnp.minimum(first, beyond - 1),))
    return jnp.where(found, largest, 0), jnp.where(found, chosen, 0).astype(indices.dtype)


def embed_bags(
    weight,
    indices,
    offsets,
    mode,
    per_sample_weights,
    include_last_offset,
    padding_idx,
):
    """The bags' rows, each index's bag and each bag's length without padding, and its maxima."""
    count = offsets.size - (1 if include_last_offset else 0)
    if offsets.size:
        check(offsets[0] == 0, FIRST_OFFSET, RuntimeError)
    width = weight.shape[1]
    if indices.size == 0 or count == 0:
        rows = jnp.zeros((count, width), weight.dtype)
        maxima = jnp.zeros((count, width), indices.dtype)
        return rows, jnp.zeros(indices.size, indices.dtype), jnp.zeros(count, jnp.int32), maxima
    bags = _bags(offsets[:count], indices.size)
    rows = _rows(weight, indices).astype(_compute_dtype(weight))
    counted = indices != padding_idx if padding_idx >= 0 else jnp.ones(indices.shape, bool)
    lengths = jnp.zeros(count, jnp.int32).at[bags].add(counted.astype(jnp.int32), mode="drop")
    if mode == MAX:
        result, maxima = _bag_max(rows, bags, count, indices, counted)
        return result, bags, lengths, maxima
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.astype(rows.dtype)[:, None]
    rows = jnp.where(counted[:, None], rows, 0) if padding_idx >= 0 else rows
    result = put_at(jnp.zeros((count, width), rows.dtype), (bags,), rows, "sum")
    if mode == MEAN:
        result = result / jnp.maximum(lengths, 1)[:, None].astype(rows.dtype)
    return result, bags, lengths, lengths


def _embedding_bag_results(forward_only):
    def rule(
        weight,
        indices,
        offsets,
        scale_grad_by_freq=False,
        mode=SUM,
        sparse=False,
        per_sample_weights=None,
        include_last_offset=False,
        padding_idx=-1,
    ):
        result, bags, lengths, maxima = embed_bags(
            weight, indices, offsets, mode, per_sample_weights, include_last_offset, padding_idx
        )
        if mode == SUM:
            # PyTorch's CPU kernel keeps neither lengths nor, on its fast path, bag numbers.
            kept = offsets.size if forward_only else result.shape[0]
            lengths = maxima = jnp.zeros(kept, jnp.int32)
            if padding_idx < 0 and weight.dtype in (jnp.float32, jnp.float16, jnp.bfloat16):
                bags = bags[:0]
        return result, bags, lengths, maxima

    return rule


lowering(aten._embedding_bag.default)(_embedding_bag_results(forward_only=False))
lowering(aten._embedding_bag_forward_only.default)(_embedding_bag_results(forward_only=True))


@lowering(aten._embedding_bag_dense_backward.default)
def _embedding_bag_dense_backward(
    grad,
    indices,
    offset2bag,
    bag_size,
    maximum_indices,
    num_weights,
    scale_grad_by_freq,
    mode,
    per_sample_weights,
    padding_idx=-1,
):
    grad = grad.astype(_compute_dtype(grad))
    bag_size = bag_size[: grad.shape[0]]  # off the CPU there is one for the last offset too
    if grad.size == 0 or indices.size == 0:
        return jnp.zeros((num_weights, grad.shape[1]), grad.dtype)
    if mode == MAX:
        columns = jnp.arange(grad.shape[1], dtype=jnp.int32)
        rows = jnp.where(bag_size[:, None] > 0, grad, 0)
        table = jnp.zeros((num_weights, grad.shape[1]), grad.dtype)
        return put_at(table, (maximum_indices.astype(jnp.int32), columns), rows, "sum")
    bags = offset2bag.astype(jnp.int32)
    if mode == MEAN:
        grad = grad / jnp.maximum(bag_size, 1)[:, None].astype(grad.dtype)
    rows = get(grad, (bags,))
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.astype(rows.dtype)[:, None]
    return _summed_rows(rows, indices, num_weights, padding_idx, scale_grad_by_freq)


@lowering(aten._embedding_bag_backward.default)
def _embedding_bag_backward(
    grad,
    indices,
    offsets,
    offset2bag,
    bag_size,
    maximum_indices,
    num_weights,
    scale_grad_by_freq,
    mode,
    sparse,
    per_sample_weights,
    padding_idx=-1,
):
    bags = _bags(offsets, indices.size) if offset2bag.size == 0 else offset2bag
    return _embedding_bag_dense_backward(
        grad,
        indices,
        bags,
        bag_size,
        maximum_indices,
        num_weights,
        scale_grad_by_freq,
        mode,
        per_sample_weights,
        padding_idx,
    )


@lowering(aten._embedding_bag_per_sample_weights_backward.default)
def _embedding_bag_per_sample_weights_backward(
    grad, weight, indices, offsets, offset2bag, mode, padding_idx=-1
):
    if indices.size == 0:
        return jnp.zeros(0, grad.dtype)
    bags = _bags(offsets, indices.size) if offset2bag.size == 0 else offset2bag
    rows = get(grad, (bags.astype(jnp.int32),)).astype(_compute_dtype(grad))
    result = jnp.sum(rows * _rows(weight, indices).astype(rows.dtype), axis=1)
    return jnp.where(indices == padding_idx, 0, result) if padding_idx >= 0 else result
