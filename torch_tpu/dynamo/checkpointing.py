"""Random ops that activation checkpointing runs twice, with the same numbers.

The generator's state of the first run is a tensor of the device, (seed, offset): nothing has to
leave the program to be saved for the second.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from torch_tpu.dynamo.graph import Callee, Node, target_of
from torch_tpu.dynamo.interpreter import Interpreter, operator, promised
from torch_tpu.lowering import random

Array = Any


@operator("higher_order::run_and_save_rng_state")
def run_and_save(
    interpreter: Interpreter, node: Node, callee: Callee, *args: Any, **kwargs: Any
) -> list[Any]:
    """The generator's state, and what an op gives that draws from it."""
    words = interpreter.state.seed, interpreter.state.next_offset()
    state = jnp.stack([jnp.asarray(word).astype(jnp.int64) for word in words])
    return [state, _draw(interpreter, node, state, callee, args, kwargs, node.meta[1])]


@operator("higher_order::run_with_rng_state")
def run_again(
    interpreter: Interpreter, node: Node, state: Array, callee: Callee, *args: Any, **kwargs: Any
) -> Any:
    """What an op gives that draws from a state that was saved."""
    return _draw(interpreter, node, state, callee, args, kwargs, node.meta)


def _draw(
    interpreter: Interpreter,
    node: Node,
    state: Array,
    callee: Callee,
    args: Any,
    kwargs: dict[str, Any],
    meta: Any,
) -> Any:
    key = random.key(state[0], state[1])
    result = interpreter.by_rule(target_of(callee.name), node, args, kwargs, key)
    return promised(result, meta)
