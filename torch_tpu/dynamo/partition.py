"""The joint graph of a forward and its backward in two, each of which shows all its sizes."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import torch
from torch import fx
from torch._functorch._aot_autograd.descriptors import SavedForBackwardsAOTOutput
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch.fx.experimental.symbolic_shapes import free_symbols, is_symbol_binding_fx_node

Symbol = Any  # sympy's


def partition(
    joint: fx.GraphModule, inputs: Sequence[Any], **options: Any
) -> tuple[fx.GraphModule, fx.GraphModule]:
    """PyTorch's partition, with the sizes saved that only the inside of the backward speaks of.

    PyTorch saves those that the backward's inputs speak of. A program is made of what all of its
    arrays' sizes are.
    """
    forward, backward = min_cut_rematerialization_partition(joint, inputs, **options)
    known = {is_symbol_binding_fx_node(node): node for node in _inputs(forward)}
    shown = {is_symbol_binding_fx_node(node) for node in _inputs(backward)}
    hidden = _symbols(backward) - shown - _dims(backward)
    saved = [known[symbol] for symbol in sorted(hidden, key=str) if symbol in known]
    if saved:
        _save(forward, saved)
        _take(backward, saved)
    return forward, backward


def _inputs(module: fx.GraphModule) -> list[fx.Node]:
    return module.graph.find_nodes(op="placeholder")


def _symbols(module: fx.GraphModule) -> set[Symbol]:
    values = (node.meta["val"] for node in module.graph.nodes if "val" in node.meta)
    return {symbol for value in values for symbol in free_symbols(value)}


def _dims(module: fx.GraphModule) -> set[Symbol]:
    """Symbols that are dimensions of inputs by themselves."""
    shapes = (getattr(node.meta.get("val"), "shape", ()) for node in _inputs(module))
    sizes = itertools.chain.from_iterable(shapes)
    return {size.node.expr for size in sizes if isinstance(size, torch.SymInt)}


def _save(forward: fx.GraphModule, nodes: list[fx.Node]) -> None:
    """Add to what the forward saves; numbers are the last."""
    output = forward.graph.output_node()
    outputs = (*output.args[0], *nodes)
    descriptions = output.meta.get("desc")
    if descriptions is not None:
        added = map(SavedForBackwardsAOTOutput, range(len(descriptions), len(outputs)))
        output.meta["desc"] = [*descriptions, *added]
    output.args = (outputs,)
    forward.recompile()


def _take(backward: fx.GraphModule, nodes: list[fx.Node]) -> None:
    """Add to what the backward takes; numbers are the first."""
    is_number = lambda node: isinstance(node.meta.get("val"), torch.SymInt)  # noqa: E731
    place = next(node for node in backward.graph.nodes if not is_number(node))
    with backward.graph.inserting_before(place):
        for node in nodes:
            backward.graph.placeholder(f"{node.name}_shown").meta.update(node.meta)
    backward.recompile()
