"""Programs of a captured graph: what each reads and gives, its key, and how it is traced."""

from __future__ import annotations

import dataclasses
import functools
import pickle
import time
from typing import Any

import torch

from torch_tpu.compiler import layout, store
from torch_tpu.compiler.node import Created, Dims, Program, Write
from torch_tpu.dynamo import logs
from torch_tpu.dynamo.graph import Graph, TensorMeta
from torch_tpu.dynamo.options import Options

Array = Any


@dataclasses.dataclass(frozen=True)
class Binding:
    """How a tensor argument lies in its storage's value; csrc/eager/graph.h says more.

    ``offset`` is -1 for a window, whose offset is a runtime integer, counted in ``aligned``.
    """

    filled: bool
    value_dims: Dims
    value_dtype: torch.dtype
    sizes: Dims
    strides: Dims
    dtype: torch.dtype
    offset: int
    aligned: int
    conj: bool
    neg: bool

    @property
    def is_window(self) -> bool:
        return self.aligned > 0

    @property
    def span(self) -> int:
        """Elements from the first to the last."""
        return 1 + sum((n - 1) * s for n, s in zip(self.sizes, self.strides, strict=True))


@dataclasses.dataclass(frozen=True)
class Signature:
    """What a graph takes and gives, told from the graph alone; numbers count its inputs.

    ``kinds`` is what _C.Graph wants, ``tensors`` the inputs that are tensors, ``writes`` those that
    take a new value, ``creates`` the outputs that are new tensors, each with its description.
    """

    kinds: tuple[str, ...]
    tensors: tuple[int, ...]
    writes: tuple[int, ...]
    creates: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class GraphSource:
    """A program to be made: a graph, how its arguments lie, which of them may be reused."""

    graph: Graph
    signature: Signature
    bindings: tuple[Binding, ...]
    donated: tuple[int, ...]
    options: Options
    ordinal: int
    precision: str
    name: str = "graph"

    is_large = True

    @property
    def label(self) -> str:
        return f"{self.name} of {len(self.graph.nodes)} nodes"

    def key(self) -> bytes:
        facts = (self.bindings, self.donated, self.options.key(), self.ordinal, self.precision)
        return b"graph" + self.graph.digest + pickle.dumps([repr(fact) for fact in facts])

    @functools.cached_property
    def numbers(self) -> Numbers:
        """Where the runtime numbers stand."""
        return Numbers(self)

    @property
    def created(self) -> list[Created]:
        metas = self.graph.metas()
        return [
            created_of(metas[self.graph.outputs[place].place]) for place in self.signature.creates
        ]

    @property
    def writes(self) -> list[Write]:
        writes = []
        for place in self.signature.writes:
            slot = self.signature.tensors.index(place)
            binding = self.bindings[slot]
            writes.append(Write(slot, binding.value_dims, binding.value_dtype))
        return writes

    def reusable(self) -> list[int]:
        """The donated inputs that an output fits, one for one; a written one's own new value first."""
        wanted = [(each.value_dims, each.dtype) for each in self.created]
        wanted += [(write.dims, write.dtype) for write in self.writes]
        filled = [binding for binding in self.bindings if binding.filled]
        reusable = []
        for place in self.donated:
            fits = (filled[place].value_dims, filled[place].value_dtype)
            if fits in wanted:
                wanted.remove(fits)
                reusable.append(place)
        return reusable


class Numbers:
    """The place of each runtime number: windows' offsets, numbers, then seed and offset."""

    def __init__(self, source: GraphSource):
        self.of_input: dict[int, int] = {}
        self.offsets: dict[int, int] = {}
        ints = floats = 0
        bindings = iter(source.bindings)
        for place, kind in enumerate(source.signature.kinds):
            if kind == "tensor":
                if next(bindings).is_window:
                    self.offsets[place] = ints
                    ints += 1
            elif kind == "int":
                self.of_input[place] = ints
                ints += 1
            elif kind in ("float", "complex"):
                self.of_input[place] = floats
                floats += 2 if kind == "complex" else 1
        self.seed = ints
        ints += 2 * (source.graph.draws > 0)
        self.counts = (ints, floats)


@dataclasses.dataclass(frozen=True)
class GraphProgram:
    """What csrc/python/graph.cpp reads: a program and what it gives."""

    program: Program
    created: list[Created]
    writes: list[Write]

    @property
    def checks(self) -> tuple[tuple[str, str, str, int], ...]:
        return self.program.checks


def make(source: GraphSource) -> GraphProgram:
    """The program of a source, from the cache or compiled."""
    began = time.perf_counter()
    compiled = []

    def compile_now() -> Program:
        compiled.append(True)
        return _compile(source)

    if source.options.is_cached or store.must_not_compile():
        made = store.program(source, compile_now)
    else:
        made = compile_now()
    logs.program(source, bool(compiled), time.perf_counter() - began)
    return GraphProgram(made, source.created, source.writes)


def created_of(meta: TensorMeta) -> Created:
    """A new tensor of this description."""
    created = Created(meta.sizes, meta.strides, meta.dtype)
    return dataclasses.replace(created, value_dims=layout.value_dims(created, None))


def _compile(source: GraphSource) -> Program:
    from torch_tpu.dynamo import errors, tracing

    try:
        return tracing.compile_graph(source)
    except Exception as error:
        raised = errors.explained(source, error)
    raise raised
