"""Attention over dynamic sizes that are equal without being known to be.

PyTorch's metas compare neither the keys' length with the values' and the mask's nor the batches,
so that a captured graph may know each by a symbol, and a bound, of its own: a key-value cache and
the mask that is made for it. Here they take the sizes of the query and of the keys.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import torch

from torch_tpu.lowering import sizes
from torch_tpu.lowering.sizes import Dim

aten = torch.ops.aten

Array = Any


OVERLOADS = (
    aten._scaled_dot_product_fused_attention_overrideable.default,
    aten._scaled_dot_product_fused_attention_overrideable_backward.default,
    aten._scaled_dot_product_flash_attention_for_cpu.default,
    aten._scaled_dot_product_flash_attention_for_cpu_backward.default,
)


def agreeing(rule: Callable[..., Any]) -> Callable[..., Any]:
    """The rule over operands that have one bound for each size."""
    signature = inspect.signature(rule)
    bias = next(name for name in ("attn_bias", "attn_mask") if name in signature.parameters)

    @functools.wraps(rule)
    def run(*args: Any, **kwargs: Any) -> Any:
        call = signature.bind(*args, **kwargs)
        operands = call.arguments
        *batch, heads, rows, _ = sizes.sizes_of(operands["query"])
        columns = sizes.sizes_of(operands["key"])[-2]
        for name in ("key", "value"):
            *_, own, _, width = sizes.sizes_of(operands[name])
            operands[name] = sizes.sized(operands[name], (*batch, own, columns, width))
        if operands.get(bias) is not None:
            operands[bias] = _broadcastable(operands[bias], (*batch, heads, rows, columns))
        return rule(*call.args, **call.kwargs)

    return run


def _broadcastable(bias: Array, scores: tuple[Dim, ...]) -> Array:
    own = sizes.sizes_of(bias)
    pairs = zip(own, scores[len(scores) - len(own) :], strict=True)
    return sizes.sized(bias, [one if sizes.is_one(one) else size for one, size in pairs])
