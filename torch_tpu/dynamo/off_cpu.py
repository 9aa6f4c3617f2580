"""Ops whose results have other shapes on the CPU than on every other device.

Eager mode gives the CPU's. A graph is captured with those of the other devices, so it gives them.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from torch_tpu.dynamo.graph import Node
from torch_tpu.dynamo.interpreter import Interpreter, operator, promised
from torch_tpu.lowering.embedding import embed_bags


@operator("aten::_embedding_bag", "aten::_embedding_bag_forward_only")
def embedding_bag(
    interpreter: Interpreter,
    node: Node,
    weight: Any,
    indices: Any,
    offsets: Any,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: Any = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> Any:
    """The CPU's fast path keeps neither the bags' numbers nor their lengths."""
    result, bags, sizes, maxima = embed_bags(
        weight, indices, offsets, mode, per_sample_weights, include_last_offset, padding_idx
    )
    sizes = jnp.pad(sizes, (0, offsets.shape[0] - sizes.shape[0]))
    if not node.meta[3].sizes[0]:
        maxima = maxima[:0].reshape(0)
    return promised([result, bags, sizes, maxima], node.meta)
