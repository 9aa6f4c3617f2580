"""The smallest part of a graph that still fails as the whole does, and a script that shows it."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator, Sequence

from torch_tpu.dynamo import text
from torch_tpu.dynamo.graph import COPY, Graph, Node, Symbolic, TensorMeta
from torch_tpu.dynamo.program import Binding, GraphSource, whole
from torch_tpu.dynamo.signature import signature_of
from torch_tpu.dynamo.symbols import evaluate

Failure = tuple[type, str]


def smallest(source: GraphSource, error: Exception, seconds: float) -> GraphSource | None:
    """The fewest nodes found that fail in the same way; None where time is up before any were."""
    try:
        return _Search(source, error, seconds).run()
    except Exception:  # an error's text must not hide the error
        return None


def wrong_flag(source: GraphSource, error: Exception) -> str | None:
    """The XLA flag that even a graph without nodes can't be compiled with."""
    empty = _part(source, source.graph, [])
    for flag in source.options.xla_flags:
        options = dataclasses.replace(source.options, xla_flags=(flag,))
        if _failure_of(dataclasses.replace(empty, options=options)) is not None:
            return f"{flag[0]}={flag[1]!r}"
    return None


class _Search:
    def __init__(self, source: GraphSource, error: Exception, seconds: float):
        self.source = source
        self.error = error
        self.failure = _kind(error)
        self.deadline = time.monotonic() + seconds
        self.found: GraphSource | None = None

    def run(self) -> GraphSource | None:
        failing = getattr(self.error, "node", None)
        for graph in _all_graphs(self.source.graph):
            for number, node in enumerate(graph.nodes):
                if node is failing and self._fails(graph, [number]):
                    return self.found
        graph = self.source.graph
        everything = list(range(len(graph.nodes)))
        _fewest(everything, lambda kept: self._fails(graph, kept))
        if self.found is None:
            self._fails(graph, everything)
        return self.found

    def _fails(self, graph: Graph, kept: Sequence[int]) -> bool:
        if time.monotonic() > self.deadline:
            return False
        part = _part(self.source, graph, kept)
        if _failure_of(part) != self.failure:
            return False
        self.found = part
        return True


def _fewest(nodes: list[int], fails: Callable[[list[int]], bool]) -> list[int]:
    """The shortest beginning that fails, less whatever it fails without."""
    passing, failing = 0, len(nodes)
    while failing - passing > 1:
        middle = (passing + failing) // 2
        passing, failing = (passing, middle) if fails(nodes[:middle]) else (middle, failing)
    nodes = nodes[:failing]
    size = max(len(nodes) // 2, 1)
    while size:
        place = 0
        while place < len(nodes):
            fewer = nodes[:place] + nodes[place + size :]
            if fewer and fails(fewer):
                nodes = fewer
            else:
                place += size
        size //= 2
    return nodes


def _all_graphs(graph: Graph) -> Iterator[Graph]:
    yield graph
    for node in graph.nodes:
        for inner in node.graphs():
            yield from _all_graphs(inner)


def _kind(error: Exception) -> Failure:
    node = getattr(error, "node", None)
    cause = error.__cause__ or error
    return type(cause), node.target if isinstance(node, Node) else ""


def _failure_of(source: GraphSource) -> Failure | None:
    """How a source fails, None where it compiles."""
    from torch_tpu.dynamo import tracing

    try:
        tracing.compile_graph(source)
    except Exception as error:
        return _kind(error)
    return None


def _part(source: GraphSource, graph: Graph, kept: Sequence[int]) -> GraphSource:
    """A source of some of a graph's nodes; what they read from others becomes an input."""
    first, metas = len(graph.inputs), graph.metas()
    places = {first + number for number in kept}
    waiting = list(places)
    while waiting:
        for ref in graph.nodes[waiting.pop() - first].refs():
            if isinstance(metas[ref.place], list) and ref.place not in places:
                places.add(ref.place)  # several tensors at once can't be an input
                waiting.append(ref.place)
    inside = sorted(places)
    read = {ref.place for place in inside for ref in graph.nodes[place - first].refs()}
    outputs = [
        place
        for place in inside
        if place not in read
        and graph.nodes[place - first].target != COPY
        and isinstance(metas[place], TensorMeta)
    ]
    part, inputs = graph.part(inside, outputs)
    known: dict[int, Binding] = {}
    if graph is source.graph:  # how an argument lies in memory may be what fails
        known = dict(zip(source.signature.tensors, source.bindings, strict=True))
    signature = signature_of(part)
    bounds = bounds_of(source)
    return dataclasses.replace(
        source,
        graph=part,
        signature=signature,
        bindings=tuple(
            known.get(inputs[place]) or _binding(source, part.inputs[place])
            for place in signature.tensors
        ),
        donated=(),
        bounds=tuple(bounds[name] for name in signature.symbols),
        exact=source.exact.intersection(signature.symbols),
        options=dataclasses.replace(source.options, debug_callback=None, dump_dir=None),
    )


def bounds_of(source: GraphSource) -> dict[str, int]:
    """The bound of each symbol."""
    return dict(zip(source.signature.symbols, source.bounds, strict=True))


def _binding(source: GraphSource, meta: TensorMeta) -> Binding:
    """A tensor that is all of its storage."""
    dims = source.value_dims(meta)
    if not meta.is_static:
        return whole(dims, meta.dtype)
    return dataclasses.replace(whole(dims, meta.dtype), sizes=meta.sizes, strides=meta.strides)


_SCRIPT = '''"""{label}: the smallest part of it that can't be compiled."""

import math
import operator

import torch
import torch_tpu

torch.set_float32_matmul_precision({precision!r})


{function}


inputs = [
{inputs}
]
compiled = torch.compile(graph, backend="tpu", fullgraph=True{settings})
print(compiled(*inputs))
'''


def script(source: GraphSource) -> str:
    """Python code that fails as the source does."""
    bounds = bounds_of(source)
    inputs = "\n".join(f"    {_input(meta, bounds)}," for meta in source.graph.inputs)
    return _SCRIPT.format(
        label=source.label,
        precision=source.precision,
        function=text.function(source.graph),
        inputs=inputs,
        settings=_settings(source),
    )


def _input(meta: object, bounds: dict[str, int]) -> str:
    if isinstance(meta, Symbolic):
        return str(evaluate([meta.expression], bounds)[0])
    if not isinstance(meta, TensorMeta):
        return {"bool": "True", "float": "1.0"}.get(str(meta), "1")
    sizes, strides = (tuple(evaluate(each, bounds)) for each in (meta.sizes, meta.strides))
    return (
        f"torch.empty_strided({sizes}, {strides}, dtype={meta.dtype}, "
        f'device="{meta.device}").zero_()'
    )


def _settings(source: GraphSource) -> str:
    settings = ", dynamic=True" if source.signature.symbols else ""
    if source.options.xla_flags:
        settings += f", options={{'xla_flags': {dict(source.options.xla_flags)}}}"
    return settings
