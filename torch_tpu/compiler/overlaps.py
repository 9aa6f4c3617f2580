"""Writes to a part of an array whose new elements come from elsewhere in that array.

XLA's CPU compiler fuses a dynamic-update-slice with what computes its update, and lets the fusion
write into the buffer that it updates. Where a reshape lies between the buffer and the update it
overlooks that the update reads that buffer at other places, which then hold new elements already:
x = x.cumsum(0); x[1:] = x[:-1].clone() comes out wrong. Such programs write by a select instead.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

# These give the elements of their operand, as they lie.
_SAME_ELEMENTS = {"reshape", "squeeze", "expand_dims", "copy", "copy_p", "bitcast_convert_type"}
# A fusion reads the results of these, not what they read.
_NEVER_FUSED = {"dot_general", "conv_general_dilated", "sort", "while", "scan"}


@dataclasses.dataclass(frozen=True)
class _Known:
    """An array's origin, if it isn't an argument's elements, and all that it is computed from.

    Arrays that the same kind of operation gives in one shape count as one: XLA merges equal ones.
    """

    origin: int | None = None
    sources: int = 0  # a set of origins, as bits


_ARGUMENT = _Known()


def reads_what_it_writes(jaxpr: Any) -> bool:
    """Whether some update of a part of an array is computed from that array.

    Arguments apart: XLA copies those that are not its to write.
    """
    return _walk(jaxpr.jaxpr, [_ARGUMENT] * len(jaxpr.jaxpr.invars), {})[1]


def _walk(
    jaxpr: Any, arguments: Sequence[_Known], origins: dict[tuple[str, Any], int]
) -> tuple[list[_Known], bool]:
    """What is known of a jaxpr's results, and whether it reads what it writes."""
    known: dict[Any, _Known] = dict(zip(jaxpr.invars, arguments, strict=True))
    found = False

    def of(atom: Any) -> _Known:
        return _ARGUMENT if hasattr(atom, "val") else known.get(atom, _ARGUMENT)

    for equation in jaxpr.eqns:
        name, operands = equation.primitive.name, [of(atom) for atom in equation.invars]
        if name == "dynamic_update_slice":
            old, update = operands[:2]
            found |= old.origin is not None and bool(update.sources >> old.origin & 1)
        if name in _SAME_ELEMENTS:
            results = operands[:1]
        elif (inner := _called(equation)) is not None:
            results, inside = _walk(inner, operands, origins)
            found |= inside
        else:
            sources = 0
            for operand in () if name in _NEVER_FUSED else operands:
                sources |= operand.sources
            kinds = ((name, result.aval) for result in equation.outvars)
            places = [origins.setdefault(kind, len(origins)) for kind in kinds]
            results = [_Known(place, sources | 1 << place) for place in places]
            found |= any(map(reads_what_it_writes, _bodies(equation)))
        known.update(zip(equation.outvars, results, strict=True))
    return [of(atom) for atom in jaxpr.outvars], found


def _bodies(equation: Any) -> list[Any]:
    """The jaxprs of a loop or of branches, whose arguments are buffers of their own."""
    parameters = (
        each if isinstance(each, (list, tuple)) else [each] for each in equation.params.values()
    )
    return [each for group in parameters for each in group if hasattr(each, "jaxpr")]


def _called(equation: Any) -> Any:
    """The jaxpr that an equation runs once on its operands, as a jitted function is."""
    inner = equation.params.get("jaxpr", equation.params.get("call_jaxpr"))
    inner = getattr(inner, "jaxpr", inner)
    is_call = inner is not None and equation.primitive.name not in ("scan", "while")
    return inner if is_call and len(inner.invars) == len(equation.invars) else None
