"""Batching rules of torch.func.vmap for ops that PyTorch has none for: fused attention.

A new dimension joins the batch of the attention, so that vmap makes one call, not one per element.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.library import register_vmap

aten = torch.ops.aten

Tensor = torch.Tensor

_ATTENTION = aten._scaled_dot_product_fused_attention_overrideable
_BACKWARD = aten._scaled_dot_product_fused_attention_overrideable_backward

# As PyTorch words it where it draws random numbers itself.
_NO_RANDOMNESS = (
    "vmap: called random operation while in randomness error mode. Please either use the 'same' or "
    "'different' randomness flags on vmap or perform the randomness operation out of vmap"
)
_SAME = "vmap: attention with dropout can't drop the same on tpu; use randomness='different'"


def support_attention() -> None:
    """Installs the rules."""
    register_vmap(_ATTENTION.default._schema.name, _attend)
    register_vmap(_BACKWARD.default._schema.name, _attend_backward)


class _Batch:
    """``size`` calls as one, whose batch is ``size`` times as large."""

    def __init__(self, size: int, query: Tensor, dim: int | None) -> None:
        shape = _without(query, dim)
        self.size, self.inner, self.dims = size, shape[0], len(shape)

    def merged(self, tensor: Tensor, dim: int | None) -> Tensor:
        return self._in_front(tensor, dim).flatten(0, 1)

    def split(self, tensor: Tensor | None) -> Tensor | None:
        return None if tensor is None else tensor.unflatten(0, (self.size, self.inner))

    def bias(self, bias: Tensor | None, dim: int | None) -> Tensor | None:
        """A bias with a batch of its own."""
        if bias is None:
            return None
        bias = self._padded(self._in_front(bias, dim))
        return bias.expand(-1, self.inner, *bias.shape[2:]).flatten(0, 1)

    def bias_gradient(self, grad: Tensor | None, shape: torch.Size | None) -> Tensor | None:
        """The gradient, summed to a bias of this shape."""
        parted = self.split(grad)
        if parted is None or shape is None:
            return None
        like = self._padded(torch.empty((self.size, *shape), device="meta"))
        return parted.sum_to_size(like.shape).reshape(self.size, *shape)

    def _padded(self, bias: Tensor) -> Tensor:
        """With sizes of 1 after the first, until as many dims follow it as a call's query has."""
        return bias.reshape(bias.shape[0], *[1] * (self.dims + 1 - bias.dim()), *bias.shape[1:])

    def _in_front(self, tensor: Tensor, dim: int | None) -> Tensor:
        if dim is None:
            return tensor.expand(self.size, *tensor.shape)
        return tensor.movedim(dim, 0)


def _attend(info: Any, in_dims: Any, *args: Any, scale: float | None = None) -> Any:
    query, key, value, bias, dropout, *flags = _filled(_ATTENTION.default, args)
    if dropout > 0 and info.randomness != "different":
        raise RuntimeError(_NO_RANDOMNESS if info.randomness == "error" else _SAME)
    dims = [*in_dims, None]
    batch = _Batch(info.batch_size, query, dims[0])
    tensors = map(batch.merged, (query, key, value), dims)
    bias = batch.bias(bias, dims[3])
    output, logsumexp, *others = _ATTENTION(*tensors, bias, dropout, *flags, scale=scale)
    results = batch.split(output), batch.split(logsumexp), *others
    return results, (0, 0, *[None] * len(others))


def _attend_backward(info: Any, in_dims: Any, *args: Any, scale: float | None = None) -> Any:
    grad, query, key, value, bias, mask, output, logsumexp, *others = args
    batch = _Batch(info.batch_size, query, in_dims[1])
    tensors = map(batch.merged, (grad, query, key, value), in_dims)
    shape = None if bias is None else _without(bias, in_dims[4])
    bias = batch.bias(bias, in_dims[4])
    saved = batch.merged(output, in_dims[6]), batch.merged(logsumexp, in_dims[7])
    *grads, bias_grad = _BACKWARD(*tensors, bias, mask, *saved, *others, scale=scale)
    results = *map(batch.split, grads), batch.bias_gradient(bias_grad, shape)
    return results, tuple(None if each is None else 0 for each in results)


def _without(tensor: Tensor, dim: int | None) -> torch.Size:
    return tensor.shape if dim is None else tensor.movedim(dim, 0).shape[1:]


def _filled(overload: Any, args: Any) -> list[Any]:
    """Positional arguments with the defaults of those that are left out."""
    given = [argument for argument in overload._schema.arguments if not argument.kwarg_only]
    return [*args, *(argument.default_value for argument in given[len(args) :])]
