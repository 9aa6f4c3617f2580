"""How a tensor's elements lie in the value under its storage."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from torch_tpu.compiler.node import Created, Dims

Value = tuple[Dims, Any]


def memory_order(created: Created) -> tuple[int, ...] | None:
    """The permutation that makes a dense tensor's dims row-major; None where it has gaps."""
    dims = [d for d in range(len(created.sizes)) if created.sizes[d] != 1]
    order = sorted(dims, key=lambda d: -created.strides[d])
    expected = 1
    for dim in reversed(order):
        if created.strides[dim] != expected:
            return None
        expected *= created.sizes[dim]
    ones = [d for d in range(len(created.sizes)) if created.sizes[d] == 1]
    if order == sorted(order):
        return tuple(range(len(created.sizes)))
    return tuple(ones + order)


def value_dims(created: Created, bound: int | None) -> Dims:
    """The dims of the Value under a new tensor: its own, in memory order."""
    if -1 in created.sizes:
        assert bound is not None
        padded = tuple(bound if size == -1 else size for size in created.sizes)
        return padded if -1 not in created.sizes[1:] else (math.prod(padded),)
    if 0 in created.sizes:
        return created.sizes
    order = memory_order(created)
    if order is None:
        return (1 + sum((n - 1) * s for n, s in zip(created.sizes, created.strides, strict=True)),)
    return tuple(created.sizes[d] for d in order)


def reusable(
    donated: Iterable[int], inputs: Sequence[Value], outputs: Iterable[Value]
) -> list[int]:
    """The donated inputs that an output fits, one for one. A value is its dims and dtype."""
    wanted, fitting = list(outputs), []
    for place in donated:
        if inputs[place] in wanted:
            wanted.remove(inputs[place])
            fitting.append(place)
    return fitting
