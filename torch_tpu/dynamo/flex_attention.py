"""Flex attention: the user's functions of a score and of its position, for all positions at once.

``jax.vmap`` takes the rules of a function's ops from one position to all of them, so that a mask
of rows and columns is computed once for all heads, and XLA fuses all of it with the scores.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import torch
import torch._dynamo._trace_wrapped_higher_order_op
from jax.custom_batching import custom_vmap
from torch.utils._pytree import tree_map

from torch_tpu.dynamo.graph import Graph, Node, TensorMeta
from torch_tpu.dynamo.interpreter import Interpreter, operator, promised
from torch_tpu.lowering.attention import HEADS, by_key_head, finite, softmax_parts
from torch_tpu.lowering.matmul import contract
from torch_tpu.lowering.registry import lowering

Array = Any

_NARROW = (torch.float16, torch.bfloat16)


@operator("higher_order::flex_attention")
def flex_attention(
    interpreter: Interpreter,
    node: Node,
    query: Array,
    key: Array,
    value: Array,
    score_mod: Graph,
    block_mask: Sequence[Any],
    scale: float,
    options: dict[str, Any],
    buffers: Sequence[Any] = (),
    mask_buffers: Sequence[Any] = (),
) -> list[Array]:
    """The output, the scores' logsumexp and their largest, these two in units of log(2)."""
    key, value = _for_each_batch(query, key, value)
    scores = _scores(query, key, scale)
    modified = _modified(interpreter, scores, score_mod, buffers, block_mask[-1], mask_buffers)
    weights, total, logsumexp = softmax_parts(modified)
    output = contract(_rows(weights, value), value, ((3,), (2,)), HEADS)
    output = output.reshape(*query.shape[:3], -1) / jnp.where(total == 0, 1, total)
    largest = jnp.max(modified, axis=-1)
    results = output, logsumexp[..., 0] / math.log(2), largest / math.log(2)
    return promised(results, node.meta)


@operator("higher_order::flex_attention_backward")
def flex_attention_backward(
    interpreter: Interpreter,
    node: Node,
    query: Array,
    key: Array,
    value: Array,
    out: Array,
    logsumexp: Array,
    grad_out: Array | None,
    grad_logsumexp: Array | None,
    score_mod: Graph,
    joint: Graph,
    block_mask: Sequence[Any],
    scale: float,
    options: dict[str, Any],
    buffers: Sequence[Any] = (),
    mask_buffers: Sequence[Any] = (),
) -> list[Any]:
    """The gradients of query, key and value, and a list of the buffers'."""
    shapes = key.shape, value.shape
    key, value = _for_each_batch(query, key, value)
    scores = _scores(query, key, scale)
    mask = _mask(interpreter, scores.shape, block_mask[-1], mask_buffers)
    modified = _scored(interpreter, scores, score_mod, buffers)
    weights = jnp.exp(modified - finite(logsumexp)[..., None] * math.log(2))
    weights = jnp.where(mask, weights, 0)
    grad_out = jnp.zeros_like(out) if grad_out is None else grad_out

    rows = _rows(grad_out, value)
    grad_weights = contract(rows, value, ((3,), (3,)), HEADS).reshape(weights.shape)
    mean = jnp.sum(grad_out.astype(weights.dtype) * out.astype(weights.dtype), -1, keepdims=True)
    grad_modified = weights * (grad_weights - mean)
    if grad_logsumexp is not None:
        grad_modified += weights * (grad_logsumexp / math.log(2))[..., None]
    grad_scores, grad_buffers = _unscored(interpreter, scores, grad_modified, joint, buffers)
    grad_scores = _rows(jnp.where(mask, grad_scores * scale, 0), key)

    grads = (
        contract(grad_scores, key, ((3,), (2,)), HEADS).reshape(query.shape),
        _of_shape(contract(grad_scores, _rows(query, key), ((2,), (2,)), HEADS), shapes[0]),
        _of_shape(contract(_rows(weights, value), rows, ((2,), (2,)), HEADS), shapes[1]),
    )
    return promised([*grads, grad_buffers], node.meta)


def _for_each_batch(query: Array, *operands: Array) -> list[Array]:
    """Keys and values, which all batches may share."""
    return [jnp.broadcast_to(each, (query.shape[0], *each.shape[1:])) for each in operands]


def _of_shape(grad: Array, shape: tuple[int, ...]) -> Array:
    return jnp.sum(grad, axis=0, keepdims=True) if grad.shape != shape else grad


def _rows(operand: Array, other: Array) -> Array:
    """An operand by query head as rows by key head, of the other's dtype."""
    return by_key_head(operand.astype(other.dtype), other.shape[1])


def _scores(query: Array, key: Array, scale: float) -> Array:
    wide = jnp.float64 if query.dtype == jnp.float64 else jnp.float32
    scores = contract(by_key_head(query, key.shape[1]), key, ((3,), (3,)), HEADS)
    return (scores.astype(wide) * scale).reshape(*query.shape[:3], key.shape[2])


def _modified(
    interpreter: Interpreter,
    scores: Array,
    score_mod: Graph,
    buffers: Sequence[Any],
    mask_mod: Graph,
    mask_buffers: Sequence[Any],
) -> Array:
    """The scores that the softmax is taken of, -inf where masked."""
    scored = _scored(interpreter, scores, score_mod, buffers)
    return jnp.where(_mask(interpreter, scores.shape, mask_mod, mask_buffers), scored, -jnp.inf)


def _mask(
    interpreter: Interpreter, shape: tuple[int, ...], mask_mod: Graph, buffers: Sequence[Any]
) -> Array:
    run = _function(interpreter, mask_mod)
    return _everywhere(lambda *position: run(*position, *buffers)[0], shape)() != 0


def _scored(
    interpreter: Interpreter, scores: Array, score_mod: Graph, buffers: Sequence[Any]
) -> Array:
    run = _function(interpreter, score_mod)
    scored = _everywhere(lambda *each: run(*each, *buffers)[0], scores.shape)(scores)
    return scored.astype(scores.dtype)


def _unscored(
    interpreter: Interpreter, scores: Array, grads: Array, joint: Graph, buffers: Sequence[Any]
) -> tuple[Array, list[Array | None]]:
    """The gradients of the scores and of the buffers, the latter summed over all positions."""
    run = _function(interpreter, joint)

    def of_one(score: Array, grad: Array, *position: Array) -> tuple[Array, list[Array | None]]:
        grad_score, *others = run(score, *position, grad, *buffers)
        return grad_score, [None if each is None else _total(each) for each in others[4:]]

    return _everywhere(of_one, scores.shape, out_axes=(0, None))(scores, grads)


def _function(interpreter: Interpreter, graph: Graph) -> Callable[..., list[Array]]:
    """A user's function in the scores' precision; its checks would cost more than it does."""
    if graph.draws:
        raise NotImplementedError("random numbers in a function of flex_attention")
    graph = _widened(graph)
    return lambda *inputs: Interpreter(graph, interpreter.state.fork(0)).run(inputs)


def _widened(graph: Graph) -> Graph:
    """The graph with float32 for narrower results: it was traced with the query's dtype."""

    def wide(meta: Any) -> Any:
        if isinstance(meta, TensorMeta) and meta.dtype in _NARROW:
            return dataclasses.replace(meta, dtype=torch.float32)
        return meta

    nodes = (dataclasses.replace(node, meta=tree_map(wide, node.meta)) for node in graph.nodes)
    return dataclasses.replace(graph, nodes=tuple(nodes))


def _everywhere(
    function: Callable[..., Any], shape: tuple[int, ...], out_axes: Any = 0
) -> Callable[..., Any]:
    """A function of 0-d arrays and a position, over arrays of all positions."""

    def run(*arrays: Array) -> Any:
        mapped = function
        for axis in reversed(range(len(shape))):
            here = (0 if place == axis else None for place in range(len(shape)))
            mapped = jax.vmap(mapped, (*(0 for _ in arrays), *here), out_axes)
        return mapped(*arrays, *(jnp.arange(size, dtype=jnp.int32) for size in shape))

    return run


@custom_vmap
def _total(value: Array) -> Array:
    """A value, summed over what it is mapped over."""
    return value


@_total.def_vmap
def _sum_of_all(size: int, batched: list[bool], value: Array) -> tuple[Array, bool]:
    return _total(jnp.sum(value, axis=0) if batched[0] else value), False


@lowering(torch.ops.flex_lib.zeros_and_scatter.default)
def zeros_and_scatter(shape: Sequence[int], indices: list[Array], vals: Array) -> Array:
    """Zeros with values added at their places; of all positions, the sum."""
    return _scatter(tuple(shape))(indices, vals)


@functools.cache
def _scatter(shape: tuple[int, ...]) -> Callable[[list[Array], Array], Array]:
    @custom_vmap
    def scatter(indices: list[Array], vals: Array) -> Array:
        return jnp.zeros(shape, vals.dtype).at[tuple(indices)].add(vals)

    @scatter.def_vmap
    def of_all(
        size: int, batched: tuple[list[bool], bool], indices: list[Array], vals: Array
    ) -> tuple[Array, bool]:
        by_index, by_value = batched
        vals = vals if by_value else jnp.broadcast_to(vals, (size, *vals.shape))
        if not any(by_index):
            return scatter(indices, jnp.sum(vals, axis=0)), False
        indices = [
            index if mapped else jnp.broadcast_to(index, (size, *index.shape))
            for index, mapped in zip(indices, by_index, strict=True)
        ]
        return scatter(indices, vals), False

    return scatter
