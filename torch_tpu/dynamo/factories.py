"""Tensors without values in a captured graph, which eager mode makes without a program."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from torch_tpu.dynamo.graph import Node, TensorMeta, open_names
from torch_tpu.dynamo.interpreter import Interpreter, NeedsExactSizes, operator
from torch_tpu.lowering import dtypes


@operator(
    "aten::empty.memory_format",
    "aten::empty_like",
    "aten::empty_permuted",
    "aten::empty_strided",
    "aten::new_empty",
    "aten::new_empty_strided",
)
def empty(interpreter: Interpreter, node: Node, *_: Any, **options: Any) -> Any:
    """Zeros: what is read before it is written is the same in every run."""
    meta: TensorMeta = node.meta
    if not meta.is_static:
        raise NeedsExactSizes(node, frozenset(open_names(meta)))
    return jnp.zeros(meta.sizes, dtypes.to_jax(meta.dtype))
