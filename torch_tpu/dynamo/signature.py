"""What a graph takes and gives, told from the graph alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

from torch_tpu.dynamo.graph import Graph, Ref, Symbolic, TensorMeta, refs_in
from torch_tpu.dynamo.padding import packed
from torch_tpu.dynamo.returns import New, Return, View, returns_of


@dataclasses.dataclass(frozen=True)
class Signature:
    """A graph's arguments and results; numbers count its inputs.

    ``kinds`` is what _C.Graph wants, ``tensors`` the inputs that are tensors, ``padded`` those of
    them with a size known at run time, ``writes`` those that take a new value, ``symbols`` the
    names of the open sizes. ``creates`` are the numbers of the values that are new tensors,
    ``results`` their descriptions, and ``returns`` says where each output comes from.
    """

    kinds: tuple[str, ...]
    tensors: tuple[int, ...]
    padded: frozenset[int]
    writes: tuple[int, ...]
    symbols: tuple[str, ...]
    creates: tuple[int, ...]
    results: tuple[TensorMeta, ...]
    returns: tuple[Return, ...]


def signature_of(graph: Graph) -> Signature:
    """The signature of a graph."""
    used = {ref.place for node in graph.nodes for ref in node.refs()}
    used |= {
        output.place
        for output in graph.outputs
        if isinstance(output, Ref) and output.place >= len(graph.inputs)
    }
    kinds = tuple(
        _kind(meta) if place in used else "unused" for place, meta in enumerate(graph.inputs)
    )
    tensors = tuple(place for place, kind in enumerate(kinds) if kind == "tensor")
    creates, returns = returns_of(graph)
    return Signature(
        kinds,
        tensors=tensors,
        padded=frozenset(place for place in tensors if not graph.inputs[place].is_static),
        writes=tuple(sorted(graph.written())),
        symbols=tuple(sorted(graph.symbols())),
        creates=creates,
        results=tuple(_results(graph, creates, returns)),
        returns=returns,
    )


def _kind(meta: Any) -> str:
    if isinstance(meta, Symbolic):
        return "unused"  # its symbols enter on their own
    if not isinstance(meta, TensorMeta):
        return {"bool": "int"}.get(meta, meta)
    if meta.device != "cpu" or meta.sizes:
        return "tensor"
    if meta.dtype.is_complex:
        return "complex"
    return "float" if meta.dtype.is_floating_point else "int"


def _results(
    graph: Graph, creates: Iterable[int], returns: Iterable[Return]
) -> Iterable[TensorMeta]:
    """The new tensors' descriptions.

    One with gaps between its elements (a part of a larger array) is packed where nobody sees it,
    and where its size is open.
    """
    metas = graph.metas()
    seen = {ref.place for ref in refs_in(graph.outputs[: graph.visible])}
    bases = {each.base for each in returns if isinstance(each, View)}
    for number, place in enumerate(creates):
        promised = place in seen or New(number) in bases
        yield metas[place] if promised and metas[place].is_static else packed(metas[place])


def open_sizes(metas: Iterable[TensorMeta]) -> list[str]:
    """The expressions among the sizes and strides of tensors, each once, in order."""
    sizes = (size for meta in metas for size in (*meta.sizes, *meta.strides))
    return list(dict.fromkeys(size for size in sizes if isinstance(size, str)))
