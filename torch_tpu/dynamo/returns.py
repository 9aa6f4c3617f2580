"""Where each output of a graph comes from: the program, an argument, a view of either.

Outputs that share memory in PyTorch share a storage here: the program gives what they are views of
once, and nothing is copied for a view.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._C._dynamo.guards import _reinterpret_tensor

from torch_tpu.dynamo.graph import COPY, Graph, Ref, Size, Symbolic, TensorMeta, target_of
from torch_tpu.dynamo.padding import is_packed

# Views whose elements aren't the base's as they are.
_CHANGING = ("aten::_conj", "aten::_neg_view")


@dataclasses.dataclass(frozen=True)
class Call:
    """What one call of a graph has for its outputs.

    ``arguments`` are those that outputs are made of, by number; ``integer`` gives an expression of
    the open sizes its value.
    """

    created: Sequence[torch.Tensor]
    arguments: dict[int, Any]
    integer: Callable[[Size], int]


@dataclasses.dataclass(frozen=True)
class New:
    """The program's new tensor of this number."""

    number: int

    def get(self, call: Call) -> Any:
        """The output."""
        return call.created[self.number]


@dataclasses.dataclass(frozen=True)
class Argument:
    """An argument itself."""

    place: int

    def get(self, call: Call) -> Any:
        """The output."""
        return call.arguments[self.place]


@dataclasses.dataclass(frozen=True)
class View:
    """A strided view of a new tensor or an argument; ``offset`` counts from that one's own."""

    base: New | Argument
    sizes: tuple[Size, ...]
    strides: tuple[Size, ...]
    offset: Size

    def get(self, call: Call) -> Any:
        """The output."""
        offset = call.integer(self.offset)
        return _reinterpret_tensor(self.base.get(call), self.sizes, self.strides, offset)


@dataclasses.dataclass(frozen=True)
class OpenView(View):
    """A view with open sizes."""

    def get(self, call: Call) -> Any:
        """The output."""
        sizes, strides = (tuple(map(call.integer, each)) for each in (self.sizes, self.strides))
        return View(self.base, sizes, strides, self.offset).get(call)


@dataclasses.dataclass(frozen=True)
class Integer:
    """An expression of open sizes."""

    expression: Size

    def get(self, call: Call) -> Any:
        """The output."""
        return call.integer(self.expression)


@dataclasses.dataclass(frozen=True)
class Constant:
    """What the graph says itself."""

    value: Any

    def get(self, call: Call) -> Any:
        """The output."""
        return self.value


Return = New | Argument | View | Integer | Constant


def returns_of(graph: Graph) -> tuple[tuple[int, ...], tuple[Return, ...]]:
    """The values that the program gives as new tensors, and where each output comes from."""
    metas = graph.metas()
    outputs = [_copied_to(graph, output) for output in graph.outputs]
    places = [output.place for output in outputs if isinstance(output, Ref)]
    written = graph.written()
    roots = {place: _root(graph, metas, written, place) for place in set(places)}
    shared = [root for place, root in roots.items() if root != place]
    creates: dict[int, New] = {}

    def new(place: int) -> New:
        return creates.setdefault(place, New(len(creates)))

    def of(output: Any) -> Return:
        if not isinstance(output, Ref):
            return Constant(output)
        place, meta, root = output.place, metas[output.place], roots[output.place]
        if isinstance(meta, Symbolic):
            return Integer(meta.expression)
        if place < len(graph.inputs):
            return Argument(place)
        if not isinstance(meta, TensorMeta):
            return Constant(None)
        base: New | Argument
        if root < len(graph.inputs):
            base = Argument(root)
        elif place != root and (written_to := _lies_in(graph, metas, root)) is not None:
            base = Argument(written_to)
        elif root != place and (root in places or shared.count(root) > 1):
            base = new(root)
        else:
            return new(place)
        view = View if meta.is_static else OpenView
        return view(base, meta.sizes, meta.strides, _distance(meta.offset, metas[root].offset))

    returns = tuple(of(output) for output in outputs)
    return tuple(creates), returns


def _copied_to(graph: Graph, output: Any) -> Any:
    """The input that an output was copied to, if that is what it is; else the output."""
    while isinstance(output, Ref) and output.place >= len(graph.inputs):
        node = graph.nodes[output.place - len(graph.inputs)]
        if node.target != COPY:
            break
        output = node.args[0]
    return output


def _root(graph: Graph, metas: list[Any], written: set[int], place: int) -> int:
    """The value that an output is a strided view of; itself where it is none."""
    first = len(graph.inputs)
    meta, root = metas[place], place
    if not isinstance(meta, TensorMeta):
        return place
    while root >= first:
        node = graph.nodes[root - first]
        if not getattr(target_of(node.target), "is_view", False) or node.target in _CHANGING:
            break
        if not node.args or not isinstance(node.args[0], Ref):
            break
        root = node.args[0].place
    base = metas[root]
    if not isinstance(base, TensorMeta) or root in written:
        return place
    if root >= first and not base.is_static and not is_packed(base):
        return place
    same = (base.dtype, base.device) == (meta.dtype, meta.device) and meta.device != "cpu"
    return root if same else place


def _lies_in(graph: Graph, metas: list[Any], place: int) -> int | None:
    """The input of open sizes that has a value at the end, if it lies there as it did before.

    AOTAutograd makes views of what was written again: of open sizes by our strides and offset.
    """
    if metas[place].is_static:
        return None
    for node in graph.nodes:
        if node.target == COPY and node.args[1] == Ref(place):
            destination = node.args[0].place
            same = metas[destination].strides == metas[place].strides
            return destination if same and destination < len(graph.inputs) else None
    return None


def _distance(offset: Size, base: Size) -> Size:
    if isinstance(offset, int) and isinstance(base, int):
        return offset - base
    return f"({offset})-({base})"
