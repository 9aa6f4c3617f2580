"""A graph cut into stages where not all of it can be one program.

What runs on the host, op by op as eager mode would: ops on CPU tensors whose results the caller
sees, ops that move values to the CPU, and ops without a lowering. All else are programs, as few as
the order allows. Arithmetic on 0-dim CPU tensors (an optimizer's step count) is part of the
programs that use it, so that a program seldom waits for the host.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from torch_tpu.dynamo.graph import (
    CONTROL,
    COPY,
    GETITEM,
    Graph,
    Node,
    TensorMeta,
    refs_in,
    target_of,
)


@dataclasses.dataclass(frozen=True)
class ProgramStage:
    """A part of the graph that is one program: its inputs and outputs are values of the whole."""

    graph: Graph
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class HostStage:
    """Nodes that run one by one, with the number of the value that each gives."""

    nodes: tuple[tuple[int, Node], ...]


Stage = ProgramStage | HostStage


def stages_of(graph: Graph, can_lower: Callable[[Node], bool]) -> list[Stage]:
    """The graph's stages in order; one of the whole where everything can be one program."""
    return _Cut(graph, can_lower).stages()


def _tensors(meta: Any) -> Iterator[TensorMeta]:
    return (leaf for leaf in tree_leaves(meta) if isinstance(leaf, TensorMeta))


class _Cut:
    def __init__(self, graph: Graph, can_lower: Callable[[Node], bool]):
        self.graph = graph
        self.can_lower = can_lower
        self.first = len(graph.inputs)
        self.metas = graph.metas()
        self.host: set[int] = set()
        self.device: set[int] = set()
        self.returned = {ref.place for ref in refs_in(graph.outputs)}
        self.readers: dict[int, list[int]] = collections.defaultdict(list)
        for place, node in enumerate(graph.nodes, self.first):
            for ref in node.refs():
                self.readers[ref.place].append(place)
        self._demand()

    def node(self, place: int) -> Node:
        return self.graph.nodes[place - self.first]

    def on_cpu(self, place: int) -> bool:
        """Whether a value is made of CPU tensors only."""
        tensors = list(_tensors(self.metas[place]))
        return bool(tensors) and all(meta.device == "cpu" for meta in tensors)

    def is_host_node(self, place: int) -> bool:
        """Whether a node can't be part of a program."""
        node = self.node(place)
        if node.target == GETITEM and self._is_list(node.args[0].place):
            return self.is_host_node(node.args[0].place)
        if not self.can_lower(node):
            return True
        reads_tpu = any(
            meta.device != "cpu" for ref in node.refs() for meta in _tensors(self.metas[ref.place])
        )
        return self.on_cpu(place) and (reads_tpu or self.is_large(place))

    def _is_list(self, place: int) -> bool:
        return place >= self.first and isinstance(self.metas[place], list)

    def is_large(self, place: int) -> bool:
        return any(meta.sizes for meta in _tensors(self.metas[place]))

    def _demand(self) -> None:
        """What is needed on either side, from the results back."""
        on_host, on_device = set(), set()
        for ref in refs_in(self.graph.outputs):
            (on_host if self.on_cpu(ref.place) else on_device).add(ref.place)
        for place in reversed(range(self.first, self.first + len(self.graph.nodes))):
            node = self.node(place)
            written = node.target == COPY
            if self.is_host_node(place) or (written and self.on_cpu(place)):
                if written or place in on_host or place in on_device or self._has_effects(node):
                    self.host.add(place)
                    on_host |= {ref.place for ref in node.refs()}
                continue
            if place in on_host and self.on_cpu(place):
                self.host.add(place)
                on_host |= {ref.place for ref in node.refs()}
            elif place in on_host:
                on_device.add(place)
            if written or place in on_device or self._has_effects(node):
                self.device.add(place)
                on_device |= {ref.place for ref in node.refs()}

    @staticmethod
    def _has_effects(node: Node) -> bool:
        """Whether a node does something besides giving a result."""
        target = target_of(node.target)
        if not isinstance(target, torch._ops.OpOverload):
            return node.target == CONTROL
        asserts = not target._schema.returns
        random = torch.Tag.nondeterministic_seeded in target.tags
        return target._schema.is_mutable or asserts or random

    def stages(self) -> list[Stage]:
        if not self.host:
            whole = tuple(range(self.first))
            outputs = tuple(ref.place for ref in refs_in(self.graph.outputs))
            return [ProgramStage(self.graph, whole, outputs)]
        levels = self._levels()
        last = max(levels.values(), default=0)
        stages: list[Stage] = []
        for level in range(last + 1):
            places = [place for (place, _), each in levels.items() if each == level]
            if level % 2:
                stages.append(HostStage(tuple((place, self.node(place)) for place in places)))
            elif places:
                stages.append(self._program(places, levels))
        return stages

    def _levels(self) -> dict[tuple[int, bool], int]:
        """The stage of every node, on the host (odd) or in a program (even); writes come last."""
        levels: dict[tuple[int, bool], int] = {}
        for place in range(self.first, self.first + len(self.graph.nodes)):
            if place in self.device:
                levels[place, False] = self._level(place, levels, host=False)
            if place in self.host:
                levels[place, True] = self._level(place, levels, host=True)
        last = {
            host: max((each for (_, on), each in levels.items() if on == host), default=int(host))
            for host in (False, True)
        }
        last[True] = max(last[True], last[False] + 1)
        for place, host in levels:
            if self.node(place).target == COPY:
                levels[place, host] = last[host]
        return dict(sorted(levels.items()))

    def _level(self, place: int, levels: dict[tuple[int, bool], int], host: bool) -> int:
        level = int(host)
        for ref in self.node(place).refs():
            same, other = (ref.place, host), (ref.place, not host)
            if same in levels:
                level = max(level, levels[same])
            elif other in levels:
                level = max(level, levels[other] + 1)
        return level

    def _program(self, places: list[int], levels: dict[tuple[int, bool], int]) -> ProgramStage:
        level = levels[places[0], False]
        outputs = [place for place in places if self._is_read_elsewhere(place, level, levels)]
        graph, inputs = self.graph.part(places, outputs)
        return ProgramStage(graph, tuple(inputs), tuple(outputs))

    def _is_read_elsewhere(
        self, place: int, level: int, levels: dict[tuple[int, bool], int]
    ) -> bool:
        if self.node(place).target == COPY:
            return False
        if place in self.returned:
            return not self.on_cpu(place)
        return any(
            levels[reader, False] != level
            for reader in self.readers[place]
            if reader in self.device
        ) or (place not in self.host and any(reader in self.host for reader in self.readers[place]))


def last_reads(stages: Iterable[Stage], kept: set[int]) -> list[list[int]]:
    """For each stage, the values that nothing reads after it."""
    seen, result = set(kept), []
    for stage in reversed(list(stages)):
        reads = set(stage.inputs) if isinstance(stage, ProgramStage) else _host_reads(stage)
        result.append(sorted(reads - seen))
        seen |= reads
    return result[::-1]


def _host_reads(stage: HostStage) -> set[int]:
    return {ref.place for _, node in stage.nodes for ref in node.refs()}
