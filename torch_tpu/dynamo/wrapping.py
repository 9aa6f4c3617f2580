"""Operators that only mark a graph or say how it is to be run: its nodes run in their place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import jax.numpy as jnp

from torch_tpu.dynamo.graph import Callee, Graph, Node, target_of
from torch_tpu.dynamo.interpreter import Interpreter, operator, promised
from torch_tpu.lowering import dtypes
from torch_tpu.lowering.promotion import promote

Array = Any


def _inline(*names: str) -> Callable[..., Any]:
    """Register where an operator's arguments have the graph, and the graph's own arguments."""

    def register(find: Callable[..., tuple[Graph, Sequence[Any]]]) -> Callable[..., Any]:
        def run(interpreter: Interpreter, node: Node, *args: Any, **options: Any) -> list[Array]:
            graph, inputs = find(*args)
            return interpreter.call(graph, inputs)

        operator(*(f"higher_order::{name}" for name in names))(run)
        return find

    return register


@_inline("invoke_subgraph")
def _after_identifier(graph: Graph, identifier: str, *inputs: Any) -> tuple[Graph, Sequence[Any]]:
    return graph, inputs


@_inline(
    "wrap",
    "wrap_activation_checkpoint",
    "tag_activation_checkpoint",
    "invoke_quant",
    "invoke_quant_packed",
    "foreach_map",
    "local_map_hop",
)
def _first(graph: Graph, *inputs: Any) -> tuple[Graph, Sequence[Any]]:
    return graph, inputs


@_inline("strict_mode", "run_const_graph", "hints_wrapper")
def _listed(graph: Graph, inputs: Sequence[Any], *hints: Any) -> tuple[Graph, Sequence[Any]]:
    return graph, inputs


@_inline("wrap_with_set_grad_enabled")
def _after_mode(enabled: bool, graph: Graph, *inputs: Any) -> tuple[Graph, Sequence[Any]]:
    return graph, inputs


@operator("higher_order::out_dtype")
def out_dtype(
    interpreter: Interpreter, node: Node, callee: Callee, dtype: Any, *args: Any
) -> Array:
    """An op whose result has another dtype, computed as wide as that."""
    *wide, _ = promote(*args, jnp.zeros(1, dtypes.to_jax(dtype)))
    return promised(interpreter.by_rule(target_of(callee.name), node, wide, {}), node.meta)


@operator(
    "higher_order::triton_kernel_wrapper_mutation", "higher_order::triton_kernel_wrapper_functional"
)
def triton_kernel(interpreter: Interpreter, node: Node, *args: Any, **kwargs: Any) -> NoReturn:
    """Triton compiles for GPUs alone."""
    raise NotImplementedError(
        "Triton kernels don't run on a TPU: write it in PyTorch or as a custom op with a lowering"
    )
