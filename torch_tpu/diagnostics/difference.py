"""What tells two recorded calls apart, in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch_tpu.compiler.node import Dims, Edge, Node, Number, Plan, Slot

SAME_CALLS = "the same calls, but other tensors go in, are kept, or may be reused"


def between(place: int, before: Plan | None, now: Plan | None, site: str = "") -> str:
    """Why the call at ``place`` (from 0) is not the one that stood there before.

    None stands for a program that ends before that place. ``site`` is the call's Python line.
    """
    if now is None:
        return SAME_CALLS if before is None else f"ends before op {place + 1} ({before.node.op})"
    called = f"op {place + 1} ({', '.join(filter(None, (now.node.op, site)))})"
    if before is None:
        return f"goes on with {called}"
    if before.node.op != now.node.op:
        return f"{called}, not {before.node.op}"
    return f"{called}: {next(_in_plans(before, now), 'a setting outside its arguments')}"


def _in_plans(before: Plan, now: Plan) -> Iterator[str]:
    yield from _in_nodes(before.node, now.node)
    if before.precision != now.precision:
        yield f"precision: {before.precision} -> {now.precision}"
    if before.bound != now.bound:
        yield f"room for its output: {before.bound} -> {now.bound}"


def _in_nodes(before: Node, now: Node) -> Iterator[str]:
    names = [argument.name for argument in now.overload._schema.arguments]
    for name, old, new in zip(names, before.arguments, now.arguments, strict=True):
        yield from _in_arguments(name, old, new)
    for name, old, new in zip(names, before.arguments, now.arguments, strict=True):
        yield from _in_storages(name, old, new, before.slots, now.slots)


def _in_arguments(name: str, old: Any, new: Any) -> Iterator[str]:
    if isinstance(old, Edge) and isinstance(new, Edge):
        yield from _in_views(name, old, new)
    elif isinstance(old, Number) and isinstance(new, Number):
        if (old.kind, old.dtype) != (new.kind, new.dtype):
            yield f"type of {name}: {_type_of(old)} -> {_type_of(new)}"
    elif _are_lists_of_edges(old, new) and len(old) == len(new):
        for place, (left, right) in enumerate(zip(old, new, strict=True)):
            yield from _in_arguments(f"{name}[{place}]", left, right)
    elif old != new:
        yield f"{name}: {_shown(old)} -> {_shown(new)}"


def _in_views(name: str, old: Edge, new: Edge) -> Iterator[str]:
    if old.sizes != new.sizes:
        yield _in_dims(name, old.sizes, new.sizes)
    if old.dtype != new.dtype:
        yield f"dtype of {name}: {_shown(old.dtype)} -> {_shown(new.dtype)}"
    if old.strides != new.strides:
        yield f"strides of {name}: {_shown(old.strides)} -> {_shown(new.strides)}"
    for what in ("offset", "conj", "neg"):
        if getattr(old, what) != getattr(new, what):
            yield f"{what} of {name}: {getattr(old, what)} -> {getattr(new, what)}"
    if old.slot != new.slot:
        yield f"{name} shares its storage with another argument, or no longer does"


def _in_dims(name: str, old: Dims, new: Dims) -> str:
    changed = [dim for dim, pair in enumerate(zip(old, new, strict=False)) if len(set(pair)) > 1]
    if len(old) == len(new) and len(changed) == 1:
        dim = changed[0]
        return f"dim {dim} of {name}: {old[dim]} -> {new[dim]}"
    return f"shape of {name}: {_shown(old)} -> {_shown(new)}"


def _in_storages(
    name: str, old: Any, new: Any, old_slots: list[Slot], new_slots: list[Slot]
) -> Iterator[str]:
    if isinstance(old, Edge) and isinstance(new, Edge):
        before, now = old_slots[old.slot], new_slots[new.slot]
        if before.filled != now.filled:
            yield f"{name} {'is' if now.filled else 'is not'} written before"
        elif (before.dims, before.dtype) != (now.dims, now.dtype):
            yield f"storage of {name}: {_shown(before)} -> {_shown(now)}"
    elif _are_lists_of_edges(old, new):
        for place, (left, right) in enumerate(zip(old, new, strict=False)):
            yield from _in_storages(f"{name}[{place}]", left, right, old_slots, new_slots)


def _are_lists_of_edges(old: Any, new: Any) -> bool:
    return all(
        isinstance(each, list) and any(isinstance(item, Edge) for item in each)
        for each in (old, new)
    )


def _type_of(number: Number) -> str:
    return number.kind if number.dtype is None else f"{_shown(number.dtype)} tensor"


def _shown(value: Any) -> str:
    """A value as people write it: tensors by their shape, dtypes without their package."""
    if isinstance(value, list):
        if not _are_lists_of_edges(value, value):
            return str(value)
        return "1 tensor" if len(value) == 1 else f"{len(value)} tensors"
    if isinstance(value, Edge):
        return f"a {_shown(value.dtype)} tensor of shape {_shown(value.sizes)}"
    if isinstance(value, Slot):
        return f"{_shown(value.dtype)} {_shown(value.dims)}"
    if isinstance(value, Number):
        return f"a number ({_type_of(value)})"
    if isinstance(value, tuple):
        return f"({', '.join(map(str, value))})"
    return str(value).removeprefix("torch.")
