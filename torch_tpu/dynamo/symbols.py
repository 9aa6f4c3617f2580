"""The open sizes of a graph: where a call's arguments show them, their bounds, expressions of them.

A program serves every size up to its bound. Where the user gave a bound (``mark_dynamic(max=)``)
that is it; else bounds grow in buckets, powers of two by default.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import operator
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from torch_tpu.dynamo.graph import Graph, Size, TensorMeta, open_names, shown
from torch_tpu.lowering.intervals import Interval, RuntimeInteger, most

Values = tuple[int, ...]
Buckets = Callable[[int], int]

# What sympy's text of a size calls, on integers and on sizes that are known at run time. TypeError
# where an expression of floats meets one of these: it has no form at a bound.
_FUNCTIONS: dict[str, Any] = {
    "FloorDiv": lambda a, b: a // b,
    "CleanDiv": lambda a, b: a // b,
    "CeilDiv": lambda a, b: (a + b - 1) // b,
    "Mod": lambda a, b: a % b,
    "PythonMod": lambda a, b: a % b,
    "ModularIndexing": lambda a, b, c: a // b % c,
    "PowByNatural": lambda a, b: math.prod([a] * b),
    "Max": lambda *each: functools.reduce(_larger, each),
    "Min": lambda *each: functools.reduce(_smaller, each),
    "Identity": lambda a: a,
    "Eq": lambda a, b: _are_equal(a, b),
    "Ne": lambda a, b: not _are_equal(a, b),
    "Piecewise": lambda *cases: functools.reduce(_otherwise, reversed(cases), 0),
    "IntTrueDiv": operator.truediv,
    "FloatTrueDiv": operator.truediv,
    "FloatPow": operator.pow,
    "ToFloat": float,
    "TruncToInt": math.trunc,
    "FloorToInt": math.floor,
    "CeilToInt": math.ceil,
    "RoundToInt": round,
    "RoundDecimal": round,
    **{f"OpaqueUnaryFn_{name}": getattr(math, name) for name in ("sqrt", "exp", "log", "log2")},
}


def _larger(a: Any, b: Any) -> Any:
    if isinstance(b, int):
        return max(a, b) if isinstance(a, int) else a.maximum(b)
    return b.maximum(a)


def _smaller(a: Any, b: Any) -> Any:
    if isinstance(b, int):
        return min(a, b) if isinstance(a, int) else a.minimum(b)
    return b.minimum(a)


def _are_equal(a: Any, b: Any) -> bool:
    if isinstance(a, RuntimeInteger) or isinstance(b, RuntimeInteger):
        raise TypeError("whether sizes are equal is known only when the program runs")
    return a == b


def _otherwise(rest: Any, case: tuple[Any, bool]) -> Any:
    """A case's value where its condition holds."""
    value, holds = case
    return value if holds else rest


@functools.cache
def _compiled(expressions: tuple[Size, ...], names: tuple[str, ...]) -> Callable[..., list[Any]]:
    text = f"lambda {', '.join(names)}: [{', '.join(map(str, expressions))}]"
    return eval(text, {"__builtins__": {}, **_FUNCTIONS})


@dataclasses.dataclass(frozen=True)
class _Source:
    """Where a call shows a symbol: an argument, or a dimension of one."""

    argument: int
    dim: int | None

    def read(self, arguments: Sequence[Any]) -> int:
        value = arguments[self.argument]
        return int(value) if self.dim is None else value.shape[self.dim]


class Symbols:
    """The symbols of one graph, in the order of their names.

    ValueError where a symbol shows in no argument by itself.
    """

    def __init__(self, graph: Graph):
        self.names = tuple(sorted(graph.symbols()))
        self._limits = graph.limits
        self._sizes = graph.sizes()
        found: dict[str, _Source] = {}
        for place, meta in enumerate(graph.inputs):
            for dim, size in shown(meta):
                found.setdefault(size, _Source(place, dim))
        hidden = [name for name in self.names if name not in found]
        if hidden:
            raise ValueError(f"no argument shows the size {hidden[0]} by itself")
        self._sources = [found[name] for name in self.names]

    def values(self, arguments: Sequence[Any]) -> Values:
        """The symbols' values in a call."""
        return tuple(source.read(arguments) for source in self._sources)

    def bounds(self, values: Values, exact: frozenset[str], bucket: Buckets) -> Values:
        """The bound of each symbol: itself for those that are ``exact``, 0 for one of no size."""

        def bound(name: str, value: int) -> int:
            if name in exact:
                return value
            if name not in self._sizes:
                return 0
            return self._limits.get(name) or bucket(value)

        return tuple(map(bound, self.names, values))

    def evaluator(self, sizes: Iterable[Size]) -> Callable[[Values], list[int]]:
        """What gives sizes and expressions of sizes for the symbols' values."""
        function = _compiled(tuple(sizes), self.names)
        return lambda values: function(*values)


def evaluate(sizes: Iterable[Size], values: dict[str, Any]) -> list[Any]:
    """Sizes and expressions of sizes, with the symbols' values in them."""
    return _compiled(tuple(sizes), tuple(values))(*values.values())


def largest(
    sizes: Iterable[Size], names: tuple[str, ...], bounds: Values, exact: Collection[str]
) -> Values:
    """The largest value of each size where the symbols go up to their bounds.

    Those that are ``exact`` are their bounds.
    """
    symbols = {
        name: bound if name in exact else Interval(0, bound)
        for name, bound in zip(names, bounds, strict=True)
    }
    return tuple(map(most, evaluate(sizes, symbols)))


def example(meta: TensorMeta) -> dict[str, int]:
    """Values of a tensor's open sizes with which no dimension is trivial, where there are some.

    They have many divisors, and are apart from one another, for expressions like ``s1//(s0//8)``.
    """
    names = sorted(open_names(meta))
    values = [720720 ** (place + 1) for place in range(len(names))]
    tried = [
        dict(zip(order, values, strict=True))
        for order in itertools.islice(itertools.permutations(names), 24)
    ]
    open_ones = [size for size in meta.sizes if isinstance(size, str)]
    return next((each for each in tried if min(evaluate(open_ones, each), default=2) > 1), tried[0])
