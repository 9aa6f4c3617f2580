"""Tensors without values in a captured graph, which eager mode makes without a program."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from torch_tpu.dynamo.graph import Node, TensorMeta
from torch_tpu.dynamo.interpreter import Interpreter, operator
from torch_tpu.lowering import dtypes


@operator("aten::empty.memory_format", "aten::empty_strided", "aten::empty_permuted")
def empty(interpreter: Interpreter, node: Node, size: Any, *_: Any, **options: Any) -> Any:
    """Zeros: what is read before it is written is the same in every run."""
    meta = node.meta
    assert isinstance(meta, TensorMeta)
    return jnp.zeros(tuple(size), dtypes.to_jax(meta.dtype))


@operator("aten::new_empty", "aten::new_empty_strided")
def new_empty(
    interpreter: Interpreter, node: Node, self: Any, size: Any, *_: Any, **options: Any
) -> Any:
    return empty(interpreter, node, size)


@operator("aten::empty_like")
def empty_like(interpreter: Interpreter, node: Node, self: Any, **options: Any) -> Any:
    return empty(interpreter, node, self.shape)
