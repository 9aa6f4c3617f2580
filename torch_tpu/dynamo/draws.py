"""Random ops of captured graphs that eager mode has in another form."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax.numpy as jnp
import torch

from torch_tpu.compiler.decomposition import rule_for
from torch_tpu.dynamo.graph import Node, TensorMeta, open_names, target_name
from torch_tpu.dynamo.interpreter import Interpreter, NeedsExactSizes, operator, promised
from torch_tpu.dynamo.rng_states import draw_again, draw_and_save
from torch_tpu.lowering import dtypes, registry

aten = torch.ops.aten


def _fill(interpreter: Interpreter, node: Node, overload: Any, *numbers: Any) -> Any:
    """The result of a factory as its tensor would be filled in place."""
    meta: TensorMeta = node.meta
    if not meta.is_static:
        raise NeedsExactSizes(node, frozenset(open_names(meta)))
    blank = jnp.zeros(meta.sizes, dtypes.to_jax(meta.dtype))
    key = {"generator": interpreter.state.random_key()}
    rule = rule_for(overload)
    return promised(registry.call(overload, (blank, *numbers), {}, rule=rule, named=key), meta)


@operator("aten::rand", "aten::rand_like")
def rand(interpreter: Interpreter, node: Node, *_: Any, **options: Any) -> Any:
    return _fill(interpreter, node, aten.uniform.default, 0.0, 1.0)


@operator("aten::randn", "aten::randn_like")
def randn(interpreter: Interpreter, node: Node, *_: Any, **options: Any) -> Any:
    return _fill(interpreter, node, aten.normal_functional.default, 0.0, 1.0)


@operator("aten::normal.float_float")
def normal(
    interpreter: Interpreter, node: Node, mean: Any, std: Any, *_: Any, **options: Any
) -> Any:
    return _fill(interpreter, node, aten.normal_functional.default, mean, std)


@operator("aten::randint")
def randint(interpreter: Interpreter, node: Node, high: Any, *_: Any, **options: Any) -> Any:
    return _fill(interpreter, node, getattr(aten.random, "from"), 0, high)


@operator("aten::randint.low")
def randint_low(
    interpreter: Interpreter, node: Node, low: Any, high: Any, *_: Any, **options: Any
) -> Any:
    return _fill(interpreter, node, getattr(aten.random, "from"), low, high)


@operator("aten::randint_like", "aten::randint_like.low_dtype")
def randint_like(
    interpreter: Interpreter, node: Node, self: Any, *ends: Any, **options: Any
) -> Any:
    low, high = ends if len(ends) == 2 else (0, *ends)
    return _fill(interpreter, node, getattr(aten.random, "from"), low, high)


def _draw(interpreter: Interpreter, node: Node, place: int, meta: Any) -> Any:
    """The op whose name is one of the node's arguments."""
    name, rest = node.args[place], node.args[place + 1 :]
    return interpreter.result(dataclasses.replace(node, target=name, args=rest, meta=meta))


@operator(target_name(draw_and_save))
def save(interpreter: Interpreter, node: Node, *_: Any, **options: Any) -> list[Any]:
    state = interpreter.state
    saved = jnp.stack([jnp.asarray(state.seed), state.offset + state.draws]).astype(jnp.int64)
    return [saved, _draw(interpreter, node, 0, node.meta[1])]


@operator(target_name(draw_again))
def again(interpreter: Interpreter, node: Node, saved: Any, *_: Any, **options: Any) -> Any:
    state = interpreter.state
    outer = state.seed, state.offset, state.draws
    state.seed, state.offset, state.draws = saved[0], saved[1], 0
    try:
        return _draw(interpreter, node, 1, node.meta)
    finally:
        state.seed, state.offset, state.draws = outer
