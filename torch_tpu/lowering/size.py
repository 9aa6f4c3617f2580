"""A size that is known when the program runs, and its arithmetic."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import operator
from typing import Any

import jax.numpy as jnp
from jax import lax

from torch_tpu.lowering.intervals import Interval, RuntimeInteger, interval

Array = Any

# What a size that is no product is known by: a number, or an operation and what it works on.
_Name = tuple[Any, ...]
_numbers = itertools.count()


@dataclasses.dataclass(frozen=True, eq=False)
class Size(RuntimeInteger):
    """A size that is known when the program runs: its bound, and its value, a traced int32 scalar.

    Where Python wants an integer (a shape) it is its bound. Its arithmetic keeps both, and of a
    product the factors, so that a reshape can tell which dimensions it leaves as they are. What it
    has no form for (a float, a comparison) is a TypeError.
    """

    bound: int
    value: Array
    factors: tuple[int, tuple[_Name, ...]] = dataclasses.field(
        default_factory=lambda: (1, ((next(_numbers),),))
    )
    least: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", lax.convert_element_type(self.value, jnp.int32))

    @property
    def interval(self) -> Interval:
        return Interval(self.least, self.bound)

    def __index__(self) -> int:
        return self.bound

    def __mul__(self, other: int | Size) -> int | Size:
        within = self.interval * _interval(other)
        if within.least == within.most:
            return within.most
        (number, names), (factor, others) = self.factors, factors_of(other)
        factors = number * factor, tuple(sorted(names + others, key=str))
        return Size(within.most, self.value * value(other), factors, within.least)

    __rmul__ = __mul__

    def _combined(self, operation: str, other: int | Size, within: Interval, value: Array) -> Size:
        """A size known by the operation that made it, so that the same one again is the same."""
        factors = 1, ((operation, self.factors, factors_of(other)),)
        return Size(within.most, value, factors, within.least)

    def __add__(self, other: int | Size) -> Size:
        within = self.interval + _interval(other)
        return self._combined("+", other, within, self.value + value(other))

    __radd__ = __add__

    def __sub__(self, other: int | Size) -> Size:
        within = self.interval - _interval(other)
        return self._combined("-", other, within, self.value - value(other))

    def __rsub__(self, other: int) -> Size:
        return self._combined("from", other, other - self.interval, other - self.value)

    def __neg__(self) -> Size:
        return 0 - self

    def __floordiv__(self, other: int | Size) -> int | Size:
        number, names = self.factors
        factor, others = factors_of(other)
        rest = list(names)
        with contextlib.suppress(ValueError):
            for name in others:
                rest.remove(name)
            if number % factor == 0:
                return self._divided(number // factor, rest, other)
        within = self.interval // _interval(other)
        return self._combined("//", other, within, self.value // value(other))

    def _divided(self, number: int, names: list[_Name], divisor: int | Size) -> int | Size:
        if not names:
            return number
        bound = self.bound // operator.index(divisor)
        return Size(bound, self.value // value(divisor), (number, tuple(names)))

    def __rfloordiv__(self, other: int) -> Size:
        return self._combined("divides", other, other // self.interval, other // self.value)

    def __mod__(self, other: int | Size) -> Size:
        within = self.interval % _interval(other)
        return self._combined("%", other, within, self.value % value(other))

    def __rmod__(self, other: int) -> Size:
        return self._combined("divided", other, other % self.interval, other % self.value)

    def maximum(self, other: int | Size) -> Size:
        within = self.interval.maximum(_interval(other))
        return self._combined("max", other, within, jnp.maximum(self.value, value(other)))

    def minimum(self, other: int | Size) -> Size:
        within = self.interval.minimum(_interval(other))
        return self._combined("min", other, within, jnp.minimum(self.value, value(other)))


Dim = int | Size


def value(size: Dim) -> Any:
    """A size as a number: an int, or the traced scalar."""
    return size.value if isinstance(size, Size) else size


def _interval(size: Dim) -> Interval:
    return size.interval if isinstance(size, Size) else interval(size)


def factors_of(size: Dim) -> tuple[int, tuple[_Name, ...]]:
    return size.factors if isinstance(size, Size) else (size, ())
