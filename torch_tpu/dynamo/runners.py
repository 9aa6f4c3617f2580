"""What runs a captured graph: as one program, or in stages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from torch_tpu import _C
from torch_tpu.dynamo import program
from torch_tpu.dynamo.graph import Graph, Ref, names_in, resolved
from torch_tpu.dynamo.open_sizes import OpenSizes
from torch_tpu.dynamo.options import Options
from torch_tpu.dynamo.program import Binding, GraphProgram, GraphSource
from torch_tpu.dynamo.returns import Argument, Call, New, Return, View
from torch_tpu.dynamo.signature import Signature, signature_of
from torch_tpu.dynamo.stages import HostStage, ProgramStage, last_reads
from torch_tpu.precision import matmul_precision


class GraphRunner:
    """Runs a graph that is one program for each way in which its arguments lie and are bounded."""

    def __init__(self, graph: Graph, options: Options, ordinal: int, name: str = "graph"):
        self.graph, self.options, self.ordinal, self.name = graph, options, ordinal, name
        self.signature = signature = signature_of(graph)
        _refuse_views_at_unknown_places(signature)
        self._arguments = sorted(_arguments_in(signature.returns))
        self._sizes = OpenSizes(graph, signature, options) if signature.symbols else None
        fits = {(meta.sizes, meta.dtype) for meta in signature.results}
        tensors = [
            (
                place in signature.writes,
                (graph.inputs[place].sizes, graph.inputs[place].dtype) in fits,
                place in signature.padded,
            )
            for place in signature.tensors
        ]
        label = f"{name} of {len(graph.nodes)} nodes"
        self._graph = _C.Graph(label, signature.kinds, tensors, graph.draws, ordinal, self._make)
        # The graph's outputs, of a list of arguments that is emptied.
        self.run: Callable[[list[Any]], list[Any]] = self._way_to_run()

    def _way_to_run(self) -> Callable[[list[Any]], list[Any]]:
        if self._sizes is not None:
            return partial(self._run_open, self._sizes)
        creates, returns = self.signature.creates, self.signature.returns
        only_new = returns == tuple(New(number) for number in range(len(creates)))
        return self._graph.run if only_new else self._run

    def _make(
        self, bindings: list[tuple[Any, ...]], donated: list[int], bounds: list[int]
    ) -> GraphProgram:
        return program.make(
            GraphSource(
                self.graph,
                self.signature,
                tuple(Binding(*binding) for binding in bindings),
                tuple(donated) if self.options.donate else (),
                tuple(bounds),
                (self._sizes and self._sizes.exact) or frozenset(),
                self.options,
                self.ordinal,
                self.options.matmul_precision or matmul_precision(),
                self.name,
            )
        )

    def _run(self, arguments: list[Any]) -> list[Any]:
        passed = {place: arguments[place] for place in self._arguments}
        return self._outputs(Call(self._graph.run(arguments), passed, int))

    def _run_open(self, sizes: OpenSizes, arguments: list[Any]) -> list[Any]:
        passed = {place: arguments[place] for place in self._arguments}
        values = sizes.symbols.values(arguments)
        bounds = sizes.bounds(values)
        replaced = sizes.pad(arguments, bounds)
        created = self._graph.run_open(arguments, values, bounds, sizes.of_outputs(values))
        for argument, written in replaced:
            argument.copy_(written)
        return self._outputs(Call(created, passed, lambda each: sizes.integer(each, values)))

    def _outputs(self, call: Call) -> list[Any]:
        return [each.get(call) for each in self.signature.returns]


def _arguments_in(returns: Sequence[Return]) -> set[int]:
    """The arguments that outputs are, or are views of."""
    sources = [each.base if isinstance(each, View) else each for each in returns]
    return {each.place for each in sources if isinstance(each, Argument)}


def _refuse_views_at_unknown_places(signature: Signature) -> None:
    for each in signature.returns:
        if isinstance(each, View) and not names_in(each.offset) <= set(signature.symbols):
            raise NotImplementedError(
                "torch_tpu: a graph returns a view that begins where values on the device decide; "
                "return a copy of it (clone())"
            )


class StagedRunner:
    """Runs a graph stage by stage: programs, and nodes on the host between them."""

    def __init__(
        self,
        graph: Graph,
        stages: Sequence[ProgramStage | HostStage],
        options: Options,
        ordinal: int,
        name: str = "graph",
    ):
        self.graph = graph
        kept = {output.place for output in graph.outputs if isinstance(output, Ref)}
        self._steps: list[Callable[[dict[int, Any], list[int]], None]] = [
            _ProgramStep(stage, options, ordinal, f"{name}, stage {number}")
            if isinstance(stage, ProgramStage)
            else _HostStep(stage)
            for number, stage in enumerate(stages, 1)
        ]
        self._dead = last_reads(stages, kept)

    def run(self, arguments: list[Any]) -> list[Any]:
        """The graph's outputs; ``arguments`` is emptied."""
        values = dict(enumerate(arguments))
        arguments.clear()
        for step, dead in zip(self._steps, self._dead, strict=True):
            step(values, dead)
        return [resolved(output, values) for output in self.graph.outputs]


class _ProgramStep:
    def __init__(self, stage: ProgramStage, options: Options, ordinal: int, name: str):
        self.stage = stage
        self.runner = GraphRunner(stage.graph, options, ordinal, name)

    def __call__(self, values: dict[int, Any], dead: list[int]) -> None:
        arguments = [values[place] for place in self.stage.inputs]
        for place in dead:
            del values[place]
        outputs = self.runner.run(arguments)
        values.update(zip(self.stage.outputs, outputs, strict=True))


class _HostStep:
    def __init__(self, stage: HostStage):
        self.nodes = stage.nodes

    def __call__(self, values: dict[int, Any], dead: list[int]) -> None:
        for place, node in self.nodes:
            values[place] = node.call(values)
        for place in dead:
            del values[place]
