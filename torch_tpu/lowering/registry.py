"""The lowering table: which JAX function stands for which ATen op.

A rule takes the schema's arguments in order (keyword-only ones by name), every default filled in:

    Tensor            a traced array of the tensor's logical shape; Tensor? may be None
    Tensor[]          a list of arrays
    Scalar, float     a weakly typed 0-d array, a runtime input: a new value never recompiles.
                      A Python number where the rule names the argument in ``static``
    int, int[], bool, str, dtype (torch.dtype), layout, device, memory format
                      Python values, part of the program's key; an int named in ``runtime``
                      becomes a weakly typed 0-d int64 array
    Generator         in ops tagged nondeterministic_seeded, whether or not the schema has one, a
                      JAX PRNG key passed as the keyword ``generator``

and returns what the functional schema returns: an array, a list for Tensor[], a tuple for
several returns, None for an undefined tensor. Shapes must be PyTorch's; the dtype may be wider
(bf16 arithmetic in float32): the result is rounded to what PyTorch promises for the call.

One rule serves an op's functional, in-place and ``out=`` overloads. An op of a library that may be
absent ("torchvision::nms") is registered by its name, without importing the library.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib
import pkgutil
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import torch

Overload = torch._ops.OpOverload


@dataclasses.dataclass(frozen=True)
class Rule:
    """A lowering and how its arguments enter the program.

    ``writes`` names arguments that the op mutates without its schema saying so; their new values
    follow the schema's returns. ``size`` marks an op whose output length depends on values: a
    function of the rule's arguments that gives the length as a 0-d integer array. The rule then
    takes ``size=``, a static bound not below it, and returns outputs padded to that bound along
    the dimension where the promised shape has the length. A rule whose length depends on values
    for some arguments only gives None from ``size`` for the others and gets ``size=None``.
    ``layout_of`` names a tensor argument whose contiguity PyTorch's results or the best form depend
    on; the rule takes it as the keyword ``contiguous``. ``absent_on`` names platforms that XLA has
    no such op for: there the op runs on the CPU.
    """

    function: Callable[..., Any]
    static: frozenset[str] = frozenset()
    runtime: frozenset[str] = frozenset()
    writes: tuple[str, ...] = ()
    size: Callable[..., Any] | None = None
    layout_of: str | None = None
    absent_on: tuple[str, ...] = ()

    def takes_at_runtime(self, argument: torch.Argument) -> bool:
        """Whether a number for this argument is an input of the program, not part of its key."""
        kind = _element_type(argument.type)
        if kind in ("number", "Scalar", "float"):
            return argument.name not in self.static
        return kind == "int" and argument.name in self.runtime


_RULES: dict[Overload | str, Rule] = {}


def lowering(
    *overloads: Overload | str,
    static: tuple[str, ...] = (),
    runtime: tuple[str, ...] = (),
    writes: tuple[str, ...] = (),
    size: Callable[..., Any] | None = None,
    layout_of: str | None = None,
    absent_on: tuple[str, ...] = (),
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function as the rule of one or more overloads (functional ones), or of names."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        named = frozenset(static), frozenset(runtime)
        rule = Rule(function, *named, writes, size, layout_of, absent_on)
        for overload in overloads:
            if overload in _RULES:
                raise ValueError(f"{overload} has a lowering already")
            _RULES[overload] = rule
        return function

    return register


def find(overload: Overload) -> Rule | None:
    """The rule that serves an overload, its own or that of its functional form."""
    load_rules()
    rule = _RULES.get(overload) or _RULES.get(overload.name())
    if rule is None:
        functional = functional_form(overload)
        rule = None if functional is None else _RULES.get(functional)
    return rule


def call(
    overload: Overload,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    rule: Rule | None = None,
    named: dict[str, Any] | None = None,
) -> Any:
    """Run an overload's rule with a caller's arguments: defaults filled in, as rules expect.

    ``rule`` is one that the overload's own table lacks, ``named`` what rules take besides the
    schema's arguments. NotImplementedError where there is no rule.
    """
    rule = rule or find(overload)
    if rule is None:
        raise NotImplementedError(f"{overload} has no lowering")
    positional, bound = bind(overload, args, kwargs, rule)
    return rule.function(*positional, **bound, **(named or {}))


def bind(
    overload: Overload, args: tuple[Any, ...], kwargs: dict[str, Any], rule: Rule | None
) -> tuple[list[Any], dict[str, Any]]:
    """A caller's arguments as rules expect them: in order, keyword-only ones by name.

    Numbers that the rule takes at run time become arrays, as they would be there.
    """
    arguments = [argument for argument in overload._schema.arguments if not argument.is_out]
    positional, named = [], {}
    for place, argument in enumerate(arguments):
        if "Generator" in str(argument.type):
            continue
        given = args[place] if place < len(args) else argument.default_value
        value = kwargs.get(argument.name, given)
        if rule is not None and rule.takes_at_runtime(argument):
            value = jax.tree.map(_as_array, value)
        if argument.kwarg_only:
            named[argument.name] = value
        else:
            positional.append(value)
    return positional, named


def _as_array(value: Any) -> Any:
    """A number as a weakly typed array."""
    if not isinstance(value, (bool, int, float, complex)):
        return value
    return weaken(jnp.asarray(value))


def weaken(array: Any) -> Any:
    """The same number, taking part in promotion as a Python number does."""
    return jax._src.lax.lax._convert_element_type(array, weak_type=True)


def rules() -> dict[Overload, Rule]:
    """Every rule of PyTorch's own ops by overload."""
    load_rules()
    return {key: rule for key, rule in _RULES.items() if not isinstance(key, str)}


@functools.cache
def load_rules() -> None:
    """Import every module of this room once; each registers its rules."""
    package = importlib.import_module("torch_tpu.lowering")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"torch_tpu.lowering.{module.name}")


def mutated(overload: Overload) -> tuple[str, ...]:
    """Names of the arguments that the schema says are written."""
    return tuple(
        argument.name
        for argument in overload._schema.arguments
        if argument.alias_info is not None and argument.alias_info.is_write
    )


@functools.cache
def functional_form(overload: Overload) -> Overload | None:
    """The overload that computes the same without writing or sharing storage.

    add_ and add.out -> add.Tensor; view -> view_copy.
    """
    if not mutated(overload) and not overload.is_view:
        return None
    wanted = _signature(overload, drop_out=True)
    for packet in _functional_packets(overload):
        for name in packet.overloads():
            candidate = getattr(packet, name)
            if candidate is overload or mutated(candidate):
                continue
            if _signature(candidate) == wanted:
                return candidate
    return None


def _functional_packets(overload: Overload) -> Iterator[Any]:
    namespace, name = overload._schema.name.split("::")
    names = [name, name + "_functional"]
    if overload.is_view:
        names = [name + "_copy"]
    if name.startswith("__i") and name.endswith("__"):  # __iand__ -> __and__
        names.append("__" + name[3:])
    elif name.endswith("_"):
        names += [name[:-1], name[:-1] + "_functional"]
    ops = getattr(torch.ops, namespace)
    for each in names:
        with contextlib.suppress(AttributeError):
            yield getattr(ops, each)


def _signature(overload: Overload, drop_out: bool = False) -> tuple[tuple[str, str], ...]:
    return tuple(
        (argument.name, str(argument.type))
        for argument in overload._schema.arguments
        if not (drop_out and argument.is_out)
    )


def _element_type(kind: Any) -> str:
    """The type's name with lists and options taken off."""
    while hasattr(kind, "getElementType"):
        kind = kind.getElementType()
    return str(kind)
