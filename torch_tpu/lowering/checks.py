"""Conditions on values: what a rule finds out about its arguments only while the program runs.

A program with checks returns a code beside its results, a 0-d int64 array: 0 where all hold, else
what tells the first that failed. Its low VALUE_BITS bits are 1 + the place of the check among the
program's, those above the value at fault. The next synchronisation reads it
(csrc/device/runtime.cpp).
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any

import jax.numpy as jnp
import numpy as np

Array = Any

VALUE_BITS = 20
NO_FAILURE = np.int64(0)


@dataclasses.dataclass
class Checks:
    """What rules check, and the exception's name and message for each."""

    conditions: list[tuple[Array, Array | None]] = dataclasses.field(default_factory=list)
    errors: list[tuple[str, str]] = dataclasses.field(default_factory=list)

    def code(self) -> Array:
        """The code of the first check that fails."""
        code = NO_FAILURE
        for place, (condition, value) in reversed(list(enumerate(self.conditions, 1))):
            if value is None:
                holds, failure = jnp.all(condition), np.int64(place)
            else:
                holds, at_fault = _first_at_fault(condition, value)
                failure = (at_fault << VALUE_BITS) + place
            code = jnp.where(holds, code, failure)
        return code


def _first_at_fault(condition: Array, value: Array) -> tuple[Array, Array]:
    """Whether a condition holds for all of some integers, and the first that it doesn't for."""
    count = condition.size
    places = jnp.arange(count, dtype=jnp.int32).reshape(condition.shape)
    first = jnp.min(jnp.where(condition, count, places))
    value = value.reshape(-1).at[first].get(mode="fill", fill_value=0)
    return first == count, value.astype(jnp.int64)


def first_failure(codes: list[tuple[Array, int]]) -> Array:
    """One code for several, each with the number of its checks."""
    firsts = [sum(count for _, count in codes[:place]) for place in range(len(codes))]
    combined = NO_FAILURE
    for (code, _), first in reversed(list(zip(codes, firsts, strict=True))):
        combined = jnp.where(code != 0, code + first, combined)
    return combined


_collecting: list[Checks] = []


@contextlib.contextmanager
def collect_checks() -> Iterator[Checks]:
    """Gather the checks that rules make while they are traced inside."""
    _collecting.append(Checks())
    try:
        yield _collecting[-1]
    finally:
        _collecting.pop()


def check(
    condition: Array,
    message: str,
    error: type[Exception] = IndexError,
    value: Array | None = None,
) -> None:
    """Raise ``error(message)`` at the next synchronisation unless all of ``condition`` hold.

    For what PyTorch refuses by value (an index out of range). ``{value}`` in the message stands
    for the first of the integers ``value``, as many as conditions, whose condition fails. Outside
    ``collect_checks`` nothing happens.
    """
    if _collecting and jnp.size(condition):
        _collecting[-1].conditions.append((condition, value if "{value}" in message else None))
        _collecting[-1].errors.append((error.__name__, message))
