"""Branches and loops: PyTorch's control flow operators as XLA's."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from torch_tpu.dynamo.graph import Graph, Node
from torch_tpu.dynamo.interpreter import Interpreter, operator
from torch_tpu.lowering.checks import NO_FAILURE

Array = Any


class Body:
    """A graph inside, as a function that JAX may trace more than once.

    Its checks can't reach the program's outputs from inside a branch or a loop: a call returns
    their code beside the outputs, and ``report`` hands on what the operator makes of it.
    """

    def __init__(self, interpreter: Interpreter, graph: Graph):
        self.graph = graph
        self.outer = interpreter.state
        self.state = interpreter.state.fork(graph.draws)
        self.errors: list[tuple[str, str, str, int]] = []

    def __call__(
        self, inputs: Sequence[Any], turn: Array | None = None
    ) -> tuple[list[Array], Array]:
        turns = self.state.turns if turn is None else (*self.state.turns, turn)
        state = dataclasses.replace(self.state, turns=turns, codes=[], errors=[])
        outputs = Interpreter(self.graph, state).run(inputs)
        self.errors = state.errors
        return _arrays(outputs), state.failure()

    def report(self, code: Array) -> None:
        """Hand on the code of the first check that failed."""
        self.outer.report(code, self.errors)


def _arrays(values: Sequence[Any]) -> list[Any]:
    """Values whose dtype is theirs for good, as branches and loops compare them."""
    return [None if value is None else _settled(jnp.asarray(value)) for value in values]


def _settled(array: Array) -> Array:
    return lax.convert_element_type(array, array.dtype)


def _first(code: Array, later: Array) -> Array:
    return jnp.where(code != 0, code, later)


@operator("higher_order::cond")
def cond(
    interpreter: Interpreter,
    node: Node,
    predicate: Any,
    when_true: Graph,
    when_false: Graph,
    operands: Sequence[Any] = (),
) -> list[Array]:
    """One of two graphs."""
    bodies = Body(interpreter, when_true), Body(interpreter, when_false)

    def branch(place: int) -> Any:
        def run(operands: list[Array]) -> tuple[list[Array], list[Array]]:
            codes = [NO_FAILURE, NO_FAILURE]
            outputs, codes[place] = bodies[place](operands)
            return outputs, codes

        return run

    chosen = jnp.reshape(jnp.asarray(predicate), ()) != 0
    outputs, codes = lax.cond(chosen, branch(0), branch(1), _arrays(operands))
    for body, code in zip(bodies, codes, strict=True):
        body.report(code)
    return outputs


@operator("higher_order::while_loop")
def while_loop(
    interpreter: Interpreter,
    node: Node,
    test: Graph,
    step: Graph,
    carried: Sequence[Any],
    extra: Sequence[Any] = (),
    mutated: str = "",
) -> list[Array]:
    """A graph again and again, as long as another gives True."""
    condition, body = Body(interpreter, test), Body(interpreter, step)

    def proceeds(loop: tuple[Array, Array, list[Array]]) -> Array:
        turn, _, values = loop
        (answer,), _ = condition([*values, *extra], turn)
        return jnp.reshape(answer, ()) != 0

    def advance(loop: tuple[Array, Array, list[Array]]) -> tuple[Array, Array, list[Array]]:
        turn, code, values = loop
        values, failed = body([*values, *extra], turn)
        return turn + 1, _first(code, failed), values

    start = jnp.uint32(0), NO_FAILURE, _arrays(carried)
    _, code, values = lax.while_loop(proceeds, advance, start)
    body.report(code)
    return values


@operator("higher_order::scan")
def scan(
    interpreter: Interpreter,
    node: Node,
    step: Graph,
    start: Sequence[Array],
    rows: Sequence[Array],
    extra: Sequence[Any] = (),
) -> list[Array]:
    """A graph over the rows in order: what it carries at last, then its outputs' rows."""
    body = Body(interpreter, step)

    def advance(loop: tuple[Array, Array, list[Array]], row: list[Array]) -> Any:
        turn, code, values = loop
        outputs, failed = body([*values, *row, *extra], turn)
        carried, given = outputs[: len(values)], outputs[len(values) :]
        return (turn + 1, _first(code, failed), carried), given

    begin = jnp.uint32(0), NO_FAILURE, _arrays(start)
    (_, code, values), given = lax.scan(advance, begin, list(rows))
    body.report(code)
    return [*values, *given]


@operator("higher_order::map_impl")
def map_rows(
    interpreter: Interpreter,
    node: Node,
    body: Graph,
    rows: Sequence[Array],
    extra: Sequence[Any] = (),
) -> list[Array]:
    """A graph over each of the rows."""
    return scan(interpreter, node, body, (), rows, extra)


@operator("higher_order::associative_scan")
def associative_scan(
    interpreter: Interpreter,
    node: Node,
    combine: Graph,
    rows: Sequence[Array],
    extra: Sequence[Any] = (),
) -> list[Array]:
    """All running results of a combination that may be taken in any grouping."""
    if combine.draws:
        raise NotImplementedError("random numbers in an associative scan")
    body = Body(interpreter, combine)

    def pairwise(left: list[Array], right: list[Array]) -> list[Array]:
        return body([*left, *right, *extra])[0]

    return lax.associative_scan(jax.vmap(pairwise), list(rows))
