"""From where to where an integer may lie that is known only when a program runs."""

from __future__ import annotations

import dataclasses
from typing import Any


class RuntimeInteger:
    """An integer that is known only when a program runs: no float, and in no comparison."""

    def __float__(self) -> float:
        raise TypeError("an integer that is known only when a program runs is no float")


@dataclasses.dataclass(frozen=True, eq=False)
class Interval(RuntimeInteger):
    """The integers from ``least`` to ``most``; arithmetic gives what its result may be.

    Divisors are positive: sizes divide by nothing else. What has no form here (a float, a
    comparison) is a TypeError.
    """

    least: int
    most: int

    def __add__(self, other: Any) -> Interval:
        other = interval(other)
        return Interval(self.least + other.least, self.most + other.most)

    __radd__ = __add__

    def __neg__(self) -> Interval:
        return Interval(-self.most, -self.least)

    def __sub__(self, other: Any) -> Interval:
        return self + -interval(other)

    def __rsub__(self, other: Any) -> Interval:
        return interval(other) - self

    def __mul__(self, other: Any) -> Interval:
        return self._from_corners(interval(other), lambda a, b: a * b)

    __rmul__ = __mul__

    def __floordiv__(self, other: Any) -> Interval:
        return self._from_corners(interval(other).maximum(1), lambda a, b: a // b)

    def __rfloordiv__(self, other: Any) -> Interval:
        return interval(other) // self

    def __mod__(self, other: Any) -> Interval:
        most = max(interval(other).most - 1, 0)
        return Interval(0, min(most, self.most) if self.least >= 0 else most)

    def __rmod__(self, other: Any) -> Interval:
        return interval(other) % self

    def maximum(self, other: Any) -> Interval:
        other = interval(other)
        return Interval(max(self.least, other.least), max(self.most, other.most))

    def minimum(self, other: Any) -> Interval:
        other = interval(other)
        return Interval(min(self.least, other.least), min(self.most, other.most))

    def _from_corners(self, other: Interval, operation: Any) -> Interval:
        ends = [operation(a, b) for a in (self.least, self.most) for b in (other.least, other.most)]
        return Interval(min(ends), max(ends))


def interval(value: Any) -> Interval:
    """A number as an interval; an interval as itself."""
    if isinstance(value, Interval):
        return value
    if isinstance(value, int):
        return Interval(value, value)
    raise TypeError(f"{value!r} is no integer")


def most(value: int | Interval) -> int:
    """The largest integer that it may be."""
    return value.most if isinstance(value, Interval) else value
