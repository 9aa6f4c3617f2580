"""What AOTAutograd gets for a graph: a callable that runs it, and that its cache can keep."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._C._dynamo.guards import _reinterpret_tensor
from torch._functorch._aot_autograd.autograd_cache import BypassAOTAutogradCache
from torch._inductor.output_code import OutputCode

from torch_tpu import _C
from torch_tpu.compiler import store
from torch_tpu.dynamo import logs, program
from torch_tpu.dynamo.graph import (
    EFFECT,
    Graph,
    Node,
    Ref,
    Symbolic,
    TensorMeta,
    is_custom,
    names_in,
    open_names,
    resolved,
)
from torch_tpu.dynamo.open_sizes import OpenSizes
from torch_tpu.dynamo.options import Options, current
from torch_tpu.dynamo.program import Binding, GraphProgram, GraphSource, Signature
from torch_tpu.dynamo.returns import Argument, Integer, New, Return, View, returns_of
from torch_tpu.dynamo.stages import HostStage, ProgramStage, last_reads, stages_of
from torch_tpu.dynamo.symbols import Values


class CompiledGraph(OutputCode):
    """A graph that was captured, ready to run. Called with a list that it empties."""

    def __init__(
        self,
        graph: Graph,
        constants: Sequence[torch.Tensor],
        options: Options,
        ordinal: int,
        phase: str = "",
    ):
        self.graph = graph
        self.constants = list(constants)
        self.options = options
        self.ordinal = ordinal
        self.phase = phase
        self.stages = stages_of(graph, can_lower)
        self._prepare()

    def _prepare(self) -> None:
        self._boxed_call = True  # wrappers copy what they find on the instance
        name = logs.name_of(self.phase, self.options.custom_module_name)
        stages = self.stages
        logs.captured(name, self.graph, stages, can_lower)
        if len(stages) == 1 and isinstance(stages[0], ProgramStage):
            self._run: Callable[[list[Any]], Any] = GraphRunner(
                self.graph, self.options, self.ordinal, name
            )
        else:
            self._run = StagedRunner(self.graph, stages, self.options, self.ordinal, name)

    def __call__(self, inputs: Sequence[Any]) -> Any:
        arguments = inputs if isinstance(inputs, list) else list(inputs)
        arguments += self.constants
        return self._run(arguments)

    def prepare_for_serialization(self) -> None:
        """What is told from the graph at length is told once, and pickled with it."""
        if any(node.target == EFFECT for node in self.graph.nodes):
            raise BypassAOTAutogradCache("what it keeps of a graph forgets the tokens of effects")
        for stage in self.stages:
            if isinstance(stage, ProgramStage):
                _ = stage.graph.digest, stage.graph.draws

    def post_compile(self, *_: Any) -> None:
        """Nothing is left to do after loading."""

    def set_triton_bundle(self, triton_bundle: Any) -> None:
        """There are no Triton kernels."""

    def __getstate__(self) -> dict[str, Any]:
        kept = ("graph", "constants", "options", "ordinal", "phase", "stages")
        return {name: getattr(self, name) for name in kept}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.options = current() or self.options  # PyTorch's cache doesn't tell options apart
        self._prepare()


class GraphRunner:
    """Runs a graph that is one program for each way in which its arguments lie and are bounded."""

    def __init__(self, graph: Graph, options: Options, ordinal: int, name: str = "graph"):
        self.graph, self.options, self.ordinal, self.name = graph, options, ordinal, name
        self.signature = signature = signature_of(graph)
        _, self._returns = returns_of(graph)
        new = tuple(New(number) for number in range(len(signature.creates)))
        self._only_new = self._returns == new
        self._arguments = sorted(_arguments_in(self._returns))
        _refuse_views_at_unknown_places(self._returns, signature)
        self._sizes = OpenSizes(graph, signature, options) if signature.symbols else None
        metas = graph.metas()
        fits = {(meta.sizes, meta.dtype) for meta in program.results_of(graph, signature)}
        tensors = [
            (
                place in signature.writes,
                (metas[place].sizes, metas[place].dtype) in fits,
                place in signature.padded,
            )
            for place in signature.tensors
        ]
        label = f"{name} of {len(graph.nodes)} nodes"
        self._call = _C.Graph(label, signature.kinds, tensors, graph.draws, ordinal, self._make)

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
                self._sizes.exact if self._sizes else frozenset(),
                self.options,
                self.ordinal,
                self.options.matmul_precision or torch.get_float32_matmul_precision(),
                self.name,
            )
        )

    def __call__(self, arguments: list[Any]) -> list[Any]:
        """The graph's outputs; ``arguments`` is emptied."""
        if self._sizes is not None:
            return self._call_open(arguments, self._sizes)
        if self._only_new:
            return self._call(arguments)
        passed = {place: arguments[place] for place in self._arguments}
        return self._outputs(self._call(arguments), passed, ())

    def _call_open(self, arguments: list[Any], open_sizes: OpenSizes) -> list[Any]:
        passed = {place: arguments[place] for place in self._arguments}
        values = open_sizes.symbols.values(arguments)
        bounds = open_sizes.bounds(values)
        open_sizes.pad(arguments, bounds)
        created = self._call(arguments, values, bounds, open_sizes.of_outputs(values))
        return self._outputs(created, passed, values)

    def _outputs(
        self, created: list[torch.Tensor], passed: dict[int, Any], values: Values
    ) -> list[Any]:
        def integer(expression: str) -> int:
            assert self._sizes is not None
            return self._sizes.integer(expression, values)

        def get(each: Return) -> Any:
            if isinstance(each, New):
                return created[each.number]
            if isinstance(each, Argument):
                return passed[each.place]
            if isinstance(each, View):
                offset = integer(each.offset) if isinstance(each.offset, str) else each.offset
                return _reinterpret_tensor(get(each.base), each.sizes, each.strides, offset)
            if isinstance(each, Integer):
                return integer(each.expression)
            return each.value

        return [get(each) for each in self._returns]


def _arguments_in(returns: Sequence[Return]) -> set[int]:
    """The arguments that outputs are, or are views of."""
    sources = [each.base if isinstance(each, View) else each for each in returns]
    return {each.place for each in sources if isinstance(each, Argument)}


def _refuse_views_at_unknown_places(returns: Sequence[Return], signature: Signature) -> None:
    for each in returns:
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

    def __call__(self, arguments: list[Any]) -> list[Any]:
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
        outputs = self.runner(arguments)
        values.update(zip(self.stage.outputs, outputs, strict=True))


class _HostStep:
    def __init__(self, stage: HostStage):
        self.nodes = stage.nodes

    def __call__(self, values: dict[int, Any], dead: list[int]) -> None:
        for place, node in self.nodes:
            values[place] = node.call(values)
        for place in dead:
            del values[place]


def can_lower(node: Node) -> bool:
    """Whether a node can be part of a program."""
    return (
        _answer("lowers", node.target)
        and not (_is_decided_by_values(node.meta) and _answer("may_ask_values", node.target))
        and all(_answer("runs", callee.name) for callee in node.callees())
        and all(can_lower(inner) for graph in node.graphs() for inner in graph.nodes)
    )


def _is_decided_by_values(meta: Any) -> bool:
    """Whether a description has a size of which Dynamo knows no more than that there is one."""
    return any(name.startswith("u") for name in open_names(meta))


def _answer(question: str, target: str) -> bool:
    """What the interpreter says of a node's target: it has to be asked once, as it needs JAX."""

    def ask() -> bool:
        from torch_tpu.dynamo import interpreter

        return getattr(interpreter, question)(target)

    if is_custom(target):  # its lowering may come and go without a trace in our sources
        return ask()
    key = f"{question}:{target}"
    if key not in _answers:
        _answers[key] = store.answer(key.encode(), f"{question} {target}", ask)
    return _answers[key]


_answers: dict[str, bool] = {}


def signature_of(graph: Graph) -> Signature:
    """What a graph takes and gives."""
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
    return Signature(
        kinds,
        tensors=tensors,
        padded=frozenset(place for place in tensors if not graph.inputs[place].is_static),
        writes=tuple(sorted(graph.written())),
        creates=returns_of(graph)[0],
        symbols=tuple(sorted(graph.symbols())),
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
