"""Graphs over arrays whose shapes hold JAX's symbolic dimensions: what an export leaves open.

Most rules take such shapes as they are. The rules of views don't, since they ask PyTorch where the
elements lie; here each view is the JAX function that computes it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import torch
from jax import lax
from jax.export import is_symbolic_dim

from torch_tpu.dynamo.graph import Node
from torch_tpu.dynamo.interpreter import Interpreter
from torch_tpu.lowering import registry

Array = Any
View = Callable[..., Array]

aten = torch.ops.aten
_VIEWS: dict[Any, registry.Rule] = {}


class SymbolicInterpreter(Interpreter):
    """Runs a graph whose sizes JAX knows by name."""

    def by_rule(
        self, overload: Any, node: Node, args: Any, kwargs: dict[str, Any], key: Array = None
    ) -> Any:
        """The result of one call."""
        if overload in _VIEWS and _is_open(args):
            return registry.call(overload, args, kwargs, rule=_VIEWS[overload])
        arguments = zip(overload._schema.arguments, args, strict=False)
        args = [_number(each) if _is_number(argument) else each for argument, each in arguments]
        return super().by_rule(overload, node, args, kwargs, key)

    def sized(self, result: Any, node: Node, meta: Any) -> Any:
        """A result as it is: JAX knows its sizes."""
        return result


def _is_number(argument: torch.Argument) -> bool:
    return str(argument.type) in ("number", "Tensor")


def _number(value: Any) -> Any:
    """A size that takes part in arithmetic as an array."""
    return registry.weaken(jnp.asarray(value)) if is_symbolic_dim(value) else value


def _is_open(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(map(_is_open, value))
    return any(map(is_symbolic_dim, getattr(value, "shape", (value,))))


def _view(*overloads: Any) -> Callable[[View], View]:
    def register(function: View) -> View:
        _VIEWS.update(dict.fromkeys(overloads, registry.Rule(function)))
        return function

    return register


@_view(aten.view.default, aten._unsafe_view.default, aten.reshape.default)
def _reshape(self: Array, size: list[Any]) -> Array:
    return jnp.reshape(self, size)


@_view(aten.expand.default)
def _expand(self: Array, size: list[Any], *, implicit: bool = False) -> Array:
    own = [1] * (len(size) - self.ndim) + list(self.shape)
    sizes = [
        mine if isinstance(each, int) and each == -1 else each
        for mine, each in zip(own, size, strict=True)
    ]
    return jnp.broadcast_to(self, sizes)


@_view(aten.permute.default)
def _permute(self: Array, dims: list[int]) -> Array:
    return lax.transpose(self, [dim % self.ndim for dim in dims])


@_view(aten.transpose.int)
def _transpose(self: Array, dim0: int, dim1: int) -> Array:
    return jnp.swapaxes(self, dim0, dim1)


@_view(aten.t.default)
def _t(self: Array) -> Array:
    return self.T


@_view(aten.unsqueeze.default)
def _unsqueeze(self: Array, dim: int) -> Array:
    return jnp.expand_dims(self, dim)


@_view(aten.squeeze.dim, aten.squeeze.dims)
def _squeeze(self: Array, dim: int | list[int]) -> Array:
    dims = [each % self.ndim for each in (dim if isinstance(dim, list) else [dim])]
    return lax.squeeze(self, [each for each in dims if self.shape[each] == 1])


@_view(aten.select.int)
def _select(self: Array, dim: int, index: int) -> Array:
    return lax.index_in_dim(self, index, dim % self.ndim, keepdims=False)


@_view(aten.slice.Tensor)
def _slice(self: Array, dim: int, start: Any, end: Any, step: int) -> Array:
    dim %= self.ndim
    end = None if isinstance(end, int) and end >= torch.iinfo(torch.int64).max else end
    place = (slice(None),) * dim
    return self[(*place, slice(start, end, step))]


@_view(aten.alias.default, aten.detach.default)
def _same(self: Array) -> Array:
    return self
