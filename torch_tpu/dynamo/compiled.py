"""What AOTAutograd gets for a graph: a callable that runs it, and that its cache can keep."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch._functorch._aot_autograd.autograd_cache import BypassAOTAutogradCache
from torch._inductor.output_code import OutputCode

from torch_tpu.compiler import store
from torch_tpu.dynamo import logs
from torch_tpu.dynamo.graph import EFFECT, Graph, Node, Symbolic, is_custom, open_names
from torch_tpu.dynamo.options import Options, current
from torch_tpu.dynamo.runners import GraphRunner, StagedRunner
from torch_tpu.dynamo.stages import ProgramStage, stages_of


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
            runner: GraphRunner | StagedRunner = GraphRunner(
                self.graph, self.options, self.ordinal, name
            )
        else:
            runner = StagedRunner(self.graph, stages, self.options, self.ordinal, name)
        self._run = runner.run

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


def can_lower(node: Node) -> bool:
    """Whether a node can be part of a program."""
    is_decided = _is_decided_by_values(node.meta)
    if isinstance(node.meta, Symbolic) and not is_decided:
        return True  # an expression of the open sizes
    return (
        _answer("lowers", node.target)
        and not (is_decided and _answer("may_ask_values", node.target))
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
