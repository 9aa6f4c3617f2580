"""Ops that write to their arguments, as AOTAutograd wraps them: new values in place of writes.

The rule of such an op returns what its schema returns, then the new value of each argument that
it writes, in the schema's order.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from torch._higher_order_ops import auto_functionalize
from torch._library.utils import is_out

from torch_tpu.compiler import layout
from torch_tpu.compiler.lower import in_memory_order, round_to
from torch_tpu.compiler.node import Created
from torch_tpu.dynamo.graph import Callee, Node, TensorMeta, target_of
from torch_tpu.dynamo.interpreter import Interpreter, operator
from torch_tpu.lowering import registry, views

Array = Any
View = auto_functionalize.ViewInfo


@operator("higher_order::auto_functionalized")
def auto_functionalized(
    interpreter: Interpreter, node: Node, callee: Callee, /, **kwargs: Any
) -> list[Any]:
    """What the op returns, then what its written arguments become."""
    overload = target_of(callee.name)
    returned, written = _run(interpreter, node, overload, kwargs)
    metas = [node.kwargs[name] for name in registry.mutated(overload)]
    return returned + [
        _rounded(interpreter, meta, value) for meta, value in zip(metas, written, strict=True)
    ]


@operator("higher_order::auto_functionalized_v2")
def auto_functionalized_v2(
    interpreter: Interpreter, node: Node, callee: Callee, /, **kwargs: Any
) -> list[Any]:
    """What the op returns, then what the tensors become whose views it writes."""
    overload = target_of(callee.name)
    if is_out(overload):
        return _run(interpreter, node, overload, kwargs)[0]
    bases = [
        base and _Base(value, interpreter.meta(base))
        for base, value in zip(node.kwargs["_all_bases"], kwargs.pop("_all_bases"), strict=True)
    ]
    names, types = auto_functionalize.get_mutable_args(overload)
    found = auto_functionalize.read_view_information_from_args(names, types, kwargs, bases)
    for name in names:
        kwargs[name] = _each(found[name], lambda view: bases[view.base_index].read(view))
    returned, written = _run(interpreter, node, overload, kwargs)
    for name, values in zip(names, written, strict=True):
        for view, value in _pairs(found[name], values):
            bases[view.base_index].write(view, value)
    return returned + [base and base.value() for base in bases]


def _run(
    interpreter: Interpreter, node: Node, overload: Any, kwargs: dict[str, Any]
) -> tuple[list[Any], list[Any]]:
    """The op's returns (None where it has none) and the new values of what it writes."""
    results = interpreter.by_rule(overload, node, (), kwargs)
    results = list(results) if isinstance(results, tuple) else [results]
    count = len(overload._schema.returns)
    returned = [
        round_to(value, meta.dtype) if isinstance(meta, TensorMeta) else value
        for value, meta in zip(results[:count], node.meta or (), strict=False)
    ]
    return returned or [None], results[count:]


def _rounded(interpreter: Interpreter, argument: Any, value: Any) -> Any:
    """The new value of an argument, which may be a list or absent, in the dtype that it has."""
    if argument is None:
        return None
    if isinstance(argument, (list, tuple)):
        pairs = zip(argument, value, strict=True)
        return [_rounded(interpreter, each, item) for each, item in pairs]
    return round_to(value, interpreter.meta(argument).dtype)


def _each(view: Any, function: Any) -> Any:
    """A function of a view, of each in a list; None of none."""
    if isinstance(view, list):
        return [_each(item, function) for item in view]
    return None if view is None else function(view)


def _pairs(views: Any, values: Any) -> Iterator[tuple[View, Array]]:
    if not isinstance(views, list):
        views, values = [views], [values]
    return ((view, value) for view, value in zip(views, values, strict=True) if view is not None)


class _Base:
    """A tensor whose views an op writes: its storage's value as it changes."""

    def __init__(self, value: Array, meta: TensorMeta):
        self.meta = meta
        created = Created(meta.sizes, meta.strides, meta.dtype)
        created = dataclasses.replace(created, value_dims=layout.value_dims(created, None))
        self.storage = in_memory_order(value, created, None)

    def read(self, view: View) -> Array:
        return views.read(self.storage, self._spec(view))

    def write(self, view: View, value: Array) -> None:
        self.storage = views.write(self.storage, self._spec(view), round_to(value, self.meta.dtype))

    def value(self) -> Array:
        return views.read(self.storage, self._whole())

    def _whole(self) -> views.ViewSpec:
        return views.ViewSpec(self.meta.sizes, self.meta.strides, 0, self.meta.dtype)

    def _spec(self, view: View) -> views.ViewSpec:
        if isinstance(view, auto_functionalize.AsStridedViewInfo):
            place = tuple(view.size), tuple(view.stride), view.storage_offset
            return views.ViewSpec(*place, self.meta.dtype)
        if isinstance(view, auto_functionalize.SliceViewInfo):
            sizes = list(self.meta.sizes)
            sizes[view.dim] = view.end - view.start
            start = view.start * self.meta.strides[view.dim]
            return views.ViewSpec(tuple(sizes), self.meta.strides, start, self.meta.dtype)
        return self._whole()
