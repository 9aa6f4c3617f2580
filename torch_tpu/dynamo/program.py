"""Programs of a captured graph: what each reads and gives, its key, and how it is traced."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import inspect
import math
import pickle
import sys
import time
from pathlib import Path

import torch

from torch_tpu.compiler import layout, store
from torch_tpu.compiler.node import Created, Dims, Program, Write
from torch_tpu.dynamo import logs
from torch_tpu.dynamo.graph import Graph, TensorMeta, target_of
from torch_tpu.dynamo.options import Options
from torch_tpu.dynamo.padding import padding_of
from torch_tpu.dynamo.signature import Signature, open_sizes
from torch_tpu.dynamo.symbols import largest


@dataclasses.dataclass(frozen=True)
class Binding:
    """How a tensor argument lies in its storage's value; csrc/eager/graph.h says more.

    ``offset`` is -1 for a window, whose offset is a runtime integer, counted in ``aligned``.
    ``slot`` is the first argument of the same storage where one of them is written, else -1.
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
    slot: int = -1

    @property
    def is_window(self) -> bool:
        return self.aligned > 0

    @property
    def span(self) -> int:
        """Elements from the first to the last."""
        return 1 + sum((n - 1) * s for n, s in zip(self.sizes, self.strides, strict=True))


def whole(dims: Dims, dtype: torch.dtype) -> Binding:
    """The binding of a tensor that is its storage's value."""
    strides = tuple(math.prod(dims[place + 1 :]) for place in range(len(dims)))
    return Binding(True, dims, dtype, dims, strides, dtype, 0, 0, False, False)


@dataclasses.dataclass(frozen=True)
class GraphSource:
    """A program to be made: a graph, how its arguments lie, which of them may be reused.

    ``bounds`` has the largest value of each symbol, or its only one where it is ``exact``.
    """

    graph: Graph
    signature: Signature
    bindings: tuple[Binding, ...]
    donated: tuple[int, ...]
    bounds: tuple[int, ...]
    exact: frozenset[str]
    options: Options
    ordinal: int
    precision: str
    name: str = "graph"

    is_large = True

    @property
    def label(self) -> str:
        return f"{self.name} of {len(self.graph.nodes)} nodes"

    def key(self) -> bytes:
        facts = (
            self.bindings,
            self.donated,
            self.bounds,
            sorted(self.exact),
            self.options.key(),
            self.ordinal,
            self.precision,
        )
        rules = [registered_source(name) for name in sorted(self.graph.custom_ops())]
        return b"graph" + self.graph.digest + pickle.dumps([*map(repr, facts), *rules])

    @functools.cached_property
    def numbers(self) -> Numbers:
        """Where the runtime numbers stand."""
        return Numbers(self)

    @functools.cached_property
    def created(self) -> list[Created]:
        """The new tensors; csrc/eager/graph.h says what negative sizes mean."""
        results = self.signature.results
        places = {size: -1 - place for place, size in enumerate(open_sizes(results))}
        return [
            Created(
                tuple(places.get(size, size) for size in meta.sizes),
                tuple(places.get(stride, stride) for stride in meta.strides),
                meta.dtype,
                self.value_dims(meta),
            )
            for meta in results
        ]

    def value_dims(self, meta: TensorMeta) -> Dims:
        """The dims of the value under a tensor."""
        if not meta.is_static:
            padding = padding_of(meta)
            symbols = self.signature.symbols
            return padding.dims(largest(padding.sizes, symbols, self.bounds, self.exact))
        return layout.value_dims(Created(meta.sizes, meta.strides, meta.dtype), None)

    @property
    def writes(self) -> list[Write]:
        """The storages that take a new value, each once."""
        writes: dict[int, Write] = {}
        for place in self.signature.writes:
            slot = self.signature.tensors.index(place)
            binding = self.bindings[slot]
            writes.setdefault(
                self.storage(slot), Write(slot, binding.value_dims, binding.value_dtype)
            )
        return list(writes.values())

    def storage(self, slot: int) -> int:
        """The first tensor argument of the same storage."""
        shared = self.bindings[slot].slot
        return slot if shared == -1 else shared

    def reusable(self) -> list[int]:
        """The donated inputs that an output fits, one for one."""
        outputs = [(each.value_dims, each.dtype) for each in self.created]
        outputs += [(write.dims, write.dtype) for write in self.writes]
        filled = [binding for binding in self.bindings if binding.filled]
        inputs = [(binding.value_dims, binding.value_dtype) for binding in filled]
        return layout.reusable(self.donated, inputs, outputs)


class Numbers:
    """The place of each runtime number: symbols, windows' offsets and numbers, seed and offset."""

    def __init__(self, source: GraphSource):
        self.of_input: dict[int, int] = {}
        self.offsets: dict[int, int] = {}
        ints, floats = len(source.signature.symbols), 0
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


def registered_source(name: str) -> bytes:
    """What tells versions of a custom op's own rule apart: the file that it stands in.

    The cache's namespace has the sources of this package's rules alone.
    """
    registry = sys.modules.get("torch_tpu.lowering.registry")  # where no rule can be, JAX may wait
    rule = registry and registry.find(target_of(name))
    if rule is None:
        return b""
    code = inspect.unwrap(rule.function).__code__
    try:
        return hashlib.sha256(Path(code.co_filename).read_bytes()).digest()
    except OSError:  # typed in, or in an archive
        return code.co_code


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


def _compile(source: GraphSource) -> Program:
    from torch_tpu.dynamo import errors, tracing

    try:
        return tracing.compile_graph(source)
    except Exception as error:
        raised = errors.explained(source, error)
    raise raised
