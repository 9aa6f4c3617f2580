"""Rules for ops that have none of their own, through PyTorch's decompositions.

A decomposition is traced to a graph of ATen ops over fake tensors of the call's shapes; the graph
then runs over the traced arrays, each op through its rule. Numbers are part of such a program.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch._decomp import decomposition_table
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._pytree import tree_leaves, tree_map

from torch_tpu.compiler.target import client_platform
from torch_tpu.lowering import dtypes, registry

Overload = torch._ops.OpOverload


def rule_for(overload: Overload) -> registry.Rule | None:
    """The rule of an overload: its own, its functional form's, or one made by decomposing it.

    None where the client's platform can't run what it would lower to.
    """
    rule = registry.find(overload) or _decomposing_rule(overload)
    return None if rule is None or client_platform() in rule.absent_on else rule


@functools.cache
def _decomposing_rule(overload: Overload) -> registry.Rule | None:
    target = registry.functional_form(overload) if registry.mutated(overload) else overload
    if target is None or decomposition_of(target) is None or _is_random(target):
        return None
    numbers = frozenset(argument.name for argument in target._schema.arguments)
    return registry.Rule(functools.partial(_decomposed, target), static=numbers)


def decomposition_of(target: Overload) -> Any:
    """What computes the same with other ops: a decomposition, or a primitive's ATen form."""
    if target.namespace == "prims":
        return getattr(target, "impl_aten", None)
    return decomposition_table.get(target)


def _is_random(overload: Overload) -> bool:
    return torch.Tag.nondeterministic_seeded in overload.tags


def _decomposed(overload: Overload, *args: Any, **kwargs: Any) -> Any:
    decomposition = decomposition_of(overload)
    arrays: list[Any] = []
    mode = FakeTensorMode()

    def stand_in(value: Any) -> Any:
        if not hasattr(value, "dtype") or not hasattr(value, "shape"):
            return value
        arrays.append(value)
        with mode:
            return torch.empty(value.shape, dtype=dtypes.to_torch(value.dtype), device="cpu")

    args, kwargs = tree_map(stand_in, (args, kwargs))
    with mode:
        graph = make_fx(
            lambda *leaves: decomposition(*_replaced(args, leaves), **kwargs),
            decomposition_table=_tables(),
        )(*_fakes(args))
    return _Interpreter(graph).run(*arrays)


def _fakes(args: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(args) if isinstance(leaf, torch.Tensor)]


def _replaced(args: Any, leaves: tuple[torch.Tensor, ...]) -> Any:
    """The arguments with the tensors that are traced in place of their stand-ins."""
    remaining = iter(leaves)
    return tree_map(lambda leaf: next(remaining) if isinstance(leaf, torch.Tensor) else leaf, args)


@functools.cache
def _tables() -> dict[Overload, Any]:
    """The decompositions of ops without a rule; the table also holds higher-order operators."""
    return {
        op: each
        for op, each in decomposition_table.items()
        if isinstance(op, Overload) and registry.find(op) is None
    }


class _Interpreter(torch.fx.Interpreter):
    """Runs a graph over traced arrays, each op through its rule."""

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        if isinstance(target, Overload):
            return registry.call(target, args, kwargs)
        return super().call_function(target, args, kwargs)
