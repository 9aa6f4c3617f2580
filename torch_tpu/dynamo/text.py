"""A captured graph as Python text: what errors, logs and dumps show, and what a script can run."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils._dtype_abbrs import dtype_abbrs

from torch_tpu.dynamo.graph import (
    Callee,
    Graph,
    Literal,
    Node,
    Ref,
    Site,
    Symbolic,
    TensorMeta,
    shown,
)

Names = dict[int, str]


def function(graph: Graph, name: str = "graph") -> str:
    """A graph as the function of ATen ops that it is."""
    return "\n".join(_function(graph, name))


def type_of(meta: Any) -> str:
    """A value's description in a few letters: f32[4, s0]."""
    if isinstance(meta, TensorMeta):
        where = "cpu " if meta.device == "cpu" else ""
        return f"{where}{dtype_abbrs[meta.dtype]}[{', '.join(map(str, meta.sizes))}]"
    if isinstance(meta, list):
        return f"({', '.join(map(type_of, meta))})"
    return meta.expression if isinstance(meta, Symbolic) else str(meta)


def lines_of(graph: Graph) -> str:
    """The user's lines that a graph comes from: file.py:3-8, "" where none is known."""
    files: dict[str, list[int]] = {}
    for site in sites_of(graph):
        files.setdefault(site.file, []).append(site.line)
    ranges = []
    for file, lines in files.items():
        first, last = min(lines), max(lines)
        ranges.append(f"{file}:{first}" if first == last else f"{file}:{first}-{last}")
    return ", ".join(ranges)


def sites_of(graph: Graph) -> Iterator[Site]:
    """The user's lines of all nodes."""
    for node in graph.nodes:
        if node.site.file:
            yield node.site
        for inner in node.graphs():
            yield from sites_of(inner)


def _function(graph: Graph, name: str) -> Iterator[str]:
    first = len(graph.inputs)
    names = {place: f"a{place}" for place in range(first)}
    names |= {first + number: f"v{number}" for number in range(len(graph.nodes))}
    symbols = graph.symbols()
    arguments = ", ".join(
        f'{names[place]}: "{type_of(meta)}"' for place, meta in enumerate(graph.inputs)
    )
    yield f"def {name}({arguments}):"
    for symbol, source in sorted(_symbols(graph, names).items()):
        yield f"    {symbol} = {source}"
    for number, node in enumerate(graph.nodes):
        inner = {id(each): f"{names[first + number]}_{i}" for i, each in enumerate(node.graphs())}
        for each in node.graphs():
            yield from ("    " + line for line in _function(each, inner[id(each)]))
        call = _call(node, names, symbols, inner)
        site = f"  # {node.site}" if node.site.file else ""
        yield f'    {names[first + number]}: "{type_of(node.meta)}" = {call}{site}'
    yield f"    return {_literal(tuple(graph.outputs), names, symbols, {})}"


def _symbols(graph: Graph, names: Names) -> dict[str, str]:
    """Where each open size can be read."""
    found: dict[str, str] = {}
    for place, meta in enumerate(graph.inputs):
        for dim, symbol in shown(meta):
            found.setdefault(symbol, names[place] + ("" if dim is None else f".shape[{dim}]"))
    return found


def _call(node: Node, names: Names, symbols: set[str], inner: dict[int, str]) -> str:
    arguments = [_literal(each, names, symbols, inner) for each in node.args]
    arguments += [
        f"{name}={_literal(each, names, symbols, inner)}" for name, each in node.kwargs.items()
    ]
    return f"{callee(node.target)}({', '.join(arguments)})"


def callee(target: str) -> str:
    """The Python name of what a node calls."""
    if target.startswith("higher_order::"):
        return f"torch.ops.higher_order.{target.removeprefix('higher_order::')}"
    if "::" in target:
        name = target.replace("::", ".")
        return f"torch.ops.{name}" if "." in target else f"torch.ops.{name}.default"
    return target.replace(":", ".").removeprefix("_")


def _literal(value: Any, names: Names, symbols: set[str], inner: dict[int, str]) -> str:
    def each(item: Any) -> str:
        return _literal(item, names, symbols, inner)

    if isinstance(value, Ref):
        return names[value.place]
    if isinstance(value, Graph):
        return inner[id(value)]
    if isinstance(value, Callee):
        return callee(value.name)
    if isinstance(value, Literal):
        numbers = value.tensor().tolist()
        return f'torch.tensor({numbers}, dtype={value.dtype}, device="{value.device}")'
    if isinstance(value, tuple):
        return f"({', '.join(map(each, value))}{',' * (len(value) == 1)})"
    if isinstance(value, list):
        return f"[{', '.join(map(each, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key!r}: {each(item)}' for key, item in value.items())}}}"
    if isinstance(value, torch.device):
        return f"torch.{value!r}"
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    if isinstance(value, str) and any(symbol in value for symbol in symbols):
        return value  # a size
    return repr(value)
