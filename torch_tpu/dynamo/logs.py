"""What TORCH_LOGS=tpu shows of torch.compile; TORCH_LOGS=+tpu adds each graph's text."""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from torch_tpu.dynamo import text
from torch_tpu.dynamo.graph import GETITEM, Graph, Node
from torch_tpu.dynamo.stages import HostStage, Stage

if TYPE_CHECKING:
    from torch_tpu.dynamo.program import GraphSource

log = logging.getLogger(__name__)


def name_of(phase: str, chosen: str | None) -> str:
    """What a graph is called: "graph 0/1 backward" after Dynamo's id of what it compiles."""
    compiled = torch._guards.CompileContext.current_compile_id()
    parts = [chosen or "graph", str(compiled) if compiled and not chosen else "", phase]
    return " ".join(filter(None, parts))


# The names said during each capture: PyTorch's cache makes a graph again from what it kept.
_said: weakref.WeakKeyDictionary[Any, set[str]] = weakref.WeakKeyDictionary()


def captured(
    name: str, graph: Graph, stages: Sequence[Stage], can_lower: Callable[[Node], bool]
) -> None:
    """A graph came in and takes these stages."""
    if log.isEnabledFor(logging.INFO) and _is_new(name):
        _describe(name, graph)
        if len(stages) > 1:
            _describe_stages(name, stages, can_lower)


def _is_new(name: str) -> bool:
    capture = torch._guards.CompileContext.try_get()
    names = set() if capture is None else _said.setdefault(capture, set())
    if name in names:
        return False
    names.add(name)
    return True


def _describe(name: str, graph: Graph) -> None:
    open_sizes = sorted(graph.symbols())
    log.info(
        "%s: %d nodes, %d inputs, %d outputs, sizes %s%s",
        name,
        len(graph.nodes),
        len(graph.inputs),
        len(graph.outputs),
        f"open: {', '.join(open_sizes)}" if open_sizes else "fixed",
        "".join(f"; specialised: {each}" for each in specialised()),
    )
    log.debug("%s:\n%s", name, text.function(graph))


def _describe_stages(name: str, stages: Sequence[Stage], can_lower: Callable[[Node], bool]) -> None:
    log.info("%s: %d stages", name, len(stages))
    for stage in stages:
        for _, node in stage.nodes if isinstance(stage, HostStage) else ():
            if node.target == GETITEM:
                continue
            where = f" at {node.site}" if node.site.file else ""
            why = "its result is on the CPU" if can_lower(node) else "it has no lowering"
            log.info("%s: %s%s runs on the host: %s", name, node.target, where, why)


def program(source: GraphSource, compiled: bool, seconds: float) -> None:
    """A program is ready."""
    log.info(
        "%s: a program with %d inputs, %d donated, %s in %.2f s",
        source.label,
        len(source.bindings) + sum(source.numbers.counts),
        len(source.donated),
        "compiled" if compiled else "found in the cache",
        seconds,
    )


def specialised() -> list[str]:
    """Sizes that were open until the graph's code needed their value: "L['x'].size()[0] = 3"."""
    context = torch._guards.TracingContext.try_get()
    shapes = context.fake_mode.shape_env if context and context.fake_mode else None
    if shapes is None:
        return []
    return [
        f"{shapes.var_to_sources[symbol][0].name} = {value}"
        for symbol, value in shapes.replacements.items()
        if value.is_number and shapes.var_to_sources.get(symbol)
    ]
