"""Bounded dynamic sizes: arrays traced at a bound whose true sizes are known when a program runs.

A dimension of unknown size is traced at its bound. To XLA the program is a static one; what lies
beyond the true size is padding, which may hold anything. The true sizes are kept here, by array,
for as long as a program is traced. A rule that reduces, contracts or reorders along a dimension
says what padding stands for (``filled``: 0 in a sum, -inf in a maximum); one that needs a size as a
number asks ``size`` or ``count``; one that merges or splits dimensions uses ``reshape``, if the
places of elements matter outside of the rule. In a static program all of these cost nothing.
"""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
import math
import operator
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.core.primitives import copy_p

from torch_tpu.lowering import dtypes
from torch_tpu.lowering.size import Dim, Size, factors_of, value

Array = Any


def number(size: Any, dtype: Any) -> Any:
    """A count (an int or a traced scalar) in a dtype."""
    return lax.convert_element_type(size, dtype) if is_traced(size) else np.dtype(dtype).type(size)


def is_traced(size: Any) -> bool:
    """Whether a count is known only when the program runs."""
    return isinstance(size, jax.Array)


# The trace's table


@dataclasses.dataclass(frozen=True, eq=False)
class _Known:
    """What is known of an array, and the array itself, which keeps its identity its own.

    ``origin`` is the array that a reshape gathered it from, so that what follows may use that one
    instead; nothing is gathered then.
    """

    array: Array
    sizes: tuple[Dim, ...]
    origin: Array | None = None


_Table = dict[int, _Known]  # by a traced array's identity
_table: contextvars.ContextVar[_Table | None] = contextvars.ContextVar("sizes", default=None)


@contextlib.contextmanager
def bounded_trace() -> Iterator[None]:
    """Inside, arrays may have dynamic sizes. Around the tracing of one program."""
    token = _table.set({})
    try:
        yield
    finally:
        _table.reset(token)


def sizes_of(array: Array) -> tuple[Dim, ...]:
    """An array's true sizes: an int for each static dimension, a Size for each dynamic one."""
    known = _known(array)
    return known.sizes if known else tuple(array.shape)


def origin_of(array: Array) -> Array | None:
    """The array that a reshape made this one from by moving elements."""
    known = _known(array)
    return known.origin if known else None


def _known(array: Array) -> _Known | None:
    table = _table.get()
    return table.get(id(array)) if table else None


def dynamic_dims(array: Array) -> tuple[int, ...]:
    """The dimensions whose size is known only when the program runs."""
    return tuple(dim for dim, size in enumerate(sizes_of(array)) if isinstance(size, Size))


def size(array: Array, axis: int) -> Any:
    """A dimension's true size: an int, or a traced int32 scalar where it is dynamic."""
    return value(sizes_of(array)[axis])


def count(array: Array, axes: Sequence[int] | None = None) -> Any:
    """How many elements the axes (all by default) span: an int or a traced int32 scalar."""
    sizes = sizes_of(array)
    axes = range(len(sizes)) if axes is None else axes
    return value(math.prod(sizes[axis] for axis in axes))


def sized(array: Array, sizes: Sequence[Any]) -> Array:
    """The array with its true sizes declared: each an int, a traced scalar or a Size.

    An int or a Size decides the dimension's bound, too: the array is cut or padded to it.
    """
    sizes = tuple(
        Size(bound, each) if is_traced(each) else each
        for each, bound in zip(sizes, array.shape, strict=True)
    )
    array = at_bounds(array, tuple(map(operator.index, sizes)))
    known = _known(array)
    if known is None and not any(isinstance(each, Size) for each in sizes):
        return array
    return _remembered(array, sizes)


def like(array: Array, *sources: Any) -> Array:
    """An array made from the sources element by element, broadcast: it has their sizes."""
    known = [each for each in map(_known, sources) if each is not None]
    if not known or any(array is each.array for each in known):
        return array
    result: list[Dim] = list(array.shape)
    for source in known:
        for dim, each in enumerate(source.sizes, array.ndim - len(source.sizes)):
            if isinstance(each, Size) and each.bound == array.shape[dim]:
                result[dim] = each
    return sized(array, result)


def same(left: Sequence[Dim], right: Sequence[Dim]) -> bool:
    """Whether sizes are known to be equal."""
    return len(left) == len(right) and all(
        one is other or (factors_of(one) == factors_of(other) and isinstance(one, type(other)))
        for one, other in zip(left, right, strict=True)
    )


def _remembered(array: Array, sizes: tuple[Dim, ...], origin: Array | None = None) -> Array:
    table = _table.get()
    if table is None:
        raise RuntimeError("dynamic sizes outside of bounded_trace()")
    known = _known(array)
    if known is not None and same(known.sizes, sizes):
        return array
    if known is not None:
        array = copy_p.bind(array)  # an array of its own; XLA never sees it
    table[id(array)] = _Known(array, sizes, origin)
    return array


def came_from(array: Array, origin: Array) -> Array:
    """The array with the origin noted that a reshape to its sizes would make it from."""
    return _remembered(copy_p.bind(array), sizes_of(array), origin)


def converted(array: Array, dtype: Any) -> Array:
    """The array in another dtype, with what is known of it."""
    result = like(dtypes.convert(array, dtype), array)
    origin = origin_of(array)
    if origin is None or result is array:
        return result
    return came_from(result, converted(origin, dtype))


def transposed(array: Array, order: Sequence[int]) -> Array:
    """The array with its dimensions, and their sizes, in another order."""
    own = sizes_of(array)
    return sized(lax.transpose(array, order), [own[dim] for dim in order])


def at_bounds(array: Array, bounds: tuple[int, ...]) -> Array:
    """The array cut or padded at the end of each dimension."""
    if array.shape == bounds:
        return array
    room = [(0, max(0, bound - n)) for bound, n in zip(bounds, array.shape, strict=True)]
    return lax.slice(jnp.pad(array, room), (0,) * array.ndim, bounds)


def from_place(array: Array, place: Any, dim: int) -> Array:
    """The array from a traced place of a dimension on; what comes after its end is zeros."""
    room = [(0, 0, 0)] * array.ndim
    room[dim] = (0, array.shape[dim], 0)
    longer = lax.pad(array, jnp.zeros((), array.dtype), room)
    return lax.dynamic_slice_in_dim(longer, place, array.shape[dim], dim)


# The true sizes of what a random op draws.
_drawn: contextvars.ContextVar[tuple[Dim, ...]] = contextvars.ContextVar("drawn", default=())


@contextlib.contextmanager
def drawing(sizes: Sequence[Dim]) -> Iterator[None]:
    """Inside, a random op's result has these sizes: the place of an element is that among them."""
    token = _drawn.set(tuple(sizes))
    try:
        yield
    finally:
        _drawn.reset(token)


def drawn(shape: tuple[int, ...]) -> tuple[Dim, ...]:
    """The true sizes of an array of random numbers that has this shape at its bounds."""
    true = _drawn.get()
    leading = len(shape) - len(true)
    if true and leading >= 0 and tuple(map(operator.index, true)) == tuple(shape[leading:]):
        return (*shape[:leading], *true)
    return shape


# Padding


def inside(array: Array, dims: Sequence[int] | None = None) -> Any:
    """True for elements that are no padding along the dims (all by default); True if none is."""
    result: Any = True
    for dim in dynamic_dims(array):
        if dims is None or dim in dims:
            place = lax.broadcasted_iota(jnp.int32, array.shape, dim)
            result = result & (place < size(array, dim))
    return result


def filled(array: Array, padding: Any, dims: Sequence[int] | None = None) -> Array:
    """The array with a value for its padding along the dims (all by default)."""
    mask = inside(array, dims)
    if mask is True:
        return array
    return like(jnp.where(mask, array, jnp.asarray(padding).astype(array.dtype)), array)


def lowest(dtype: Any) -> Any:
    """What no value is below, NaN apart."""
    if jnp.issubdtype(dtype, jnp.floating):
        return -jnp.inf
    return False if dtype == jnp.bool_ else jnp.iinfo(dtype).min


def highest(dtype: Any) -> Any:
    """What no value is above, NaN apart."""
    if jnp.issubdtype(dtype, jnp.floating):
        return jnp.inf
    return True if dtype == jnp.bool_ else jnp.iinfo(dtype).max


# Reshapes


def reshape(array: Array, sizes: Sequence[Dim]) -> Array:
    """The array with other true sizes, elements in row-major order of the true sizes.

    Where each run of dimensions that are merged or split is dynamic in its first one only, padding
    follows the elements before and after, and the reshape moves nothing. Others gather.
    """
    source, target = sizes_of(array), tuple(sizes)
    bounds = tuple(map(operator.index, target))
    if not any(isinstance(each, Size) for each in (*source, *target)):
        return array.reshape(bounds)
    if _moves_nothing(source, target):
        return sized(array.reshape(bounds), target)
    origin = origin_of(array)
    if origin is not None and _moves_nothing(sizes_of(origin), target):
        return reshape(origin, target)
    return _remembered(_relaid(array, source, target), target, array)


def flat(array: Array) -> Array:
    """All elements in one dimension; a 0-dim array as one element."""
    return reshape(array, (math.prod(sizes_of(array)),))


def _groups(
    source: tuple[Dim, ...], target: tuple[Dim, ...]
) -> Iterator[tuple[list[Dim], list[Dim]]]:
    """The shortest runs of dimensions with equal products; what can't be told apart is one run."""
    befores, afters = list(source), list(target)
    while befores and afters:
        before, after = [befores.pop(0)], [afters.pop(0)]
        while factors_of(math.prod(before)) != factors_of(math.prod(after)):
            shorter = math.prod(map(operator.index, before)) <= math.prod(
                map(operator.index, after)
            )
            if befores and (shorter or not afters):
                before.append(befores.pop(0))
            elif afters:
                after.append(afters.pop(0))
            else:
                break
        yield before, after
    if befores or afters:  # of size one
        yield befores, afters


def _moves_nothing(source: tuple[Dim, ...], target: tuple[Dim, ...]) -> bool:
    return all(_keeps_order(*group) for group in _groups(source, target))


def _keeps_order(before: list[Dim], after: list[Dim]) -> bool:
    same = math.prod(map(operator.index, before)) == math.prod(map(operator.index, after))
    return same and all(
        not any(isinstance(each, Size) for each in [n for n in dims if not is_one(n)][1:])
        for dims in (before, after)
    )


def is_one(size: Dim) -> bool:
    return not isinstance(size, Size) and size == 1


def _relaid(array: Array, source: tuple[Dim, ...], target: tuple[Dim, ...]) -> Array:
    """Elements gathered from their places among the source's sizes to those among the target's.

    They move in rows as long as the static dimensions at the end of both allow.
    """
    bounds = tuple(map(operator.index, target))
    length = math.gcd(_static_at_end(source), _static_at_end(target))
    rows = _in_rows(source, length), _in_rows(target, length)
    if None not in rows:
        source, target = rows
    else:
        length = 1
    shape = tuple(map(operator.index, target))
    room = max(math.prod(shape), math.prod(map(operator.index, source)))
    dtype = jnp.int32 if room < 2**31 else jnp.int64
    place = jnp.zeros(shape, dtype)
    for dim, stride in enumerate(_strides(target, dtype)):
        place += lax.broadcasted_iota(dtype, shape, dim) * stride
    found = jnp.zeros(shape, dtype)
    at_bounds = _strides(tuple(map(operator.index, source)), dtype)
    for dim, (stride, wide) in enumerate(zip(_strides(source, dtype), at_bounds, strict=True)):
        step = place // jnp.maximum(stride, 1)
        # Only padding lies beyond the first dimension's size.
        found += (step if dim == 0 else step % jnp.maximum(_count(source[dim], dtype), 1)) * wide
    return jnp.take(array.reshape(-1, length), found, axis=0, mode="clip").reshape(bounds)


def _static_at_end(sizes: tuple[Dim, ...]) -> int:
    """How many elements at the end of any index are contiguous, whatever the dynamic sizes."""
    length = 1
    for each in reversed(sizes):
        length *= factors_of(each)[0]
        if isinstance(each, Size):
            break
    return length


def _in_rows(sizes: tuple[Dim, ...], length: int) -> tuple[Dim, ...] | None:
    """The sizes of an array of rows; None where no dimension ends with a row."""
    left = list(sizes)
    while length > 1:
        last = left.pop()
        factor = factors_of(last)[0]
        if factor % length == 0:
            left.append(last // length)
            break
        if isinstance(last, Size) or length % last:
            return None
        length //= last
    return tuple(left)


def _count(size: Dim, dtype: Any) -> Any:
    return number(value(size), dtype)


def _strides(sizes: tuple[Dim, ...], dtype: Any) -> list[Any]:
    """Row-major strides as numbers of a dtype."""
    strides: list[Any] = [np.dtype(dtype).type(1)]
    for each in reversed(sizes[1:]):
        strides.append(strides[-1] * _count(each, dtype))
    return strides[len(sizes) - 1 :: -1] if sizes else []


def pack(array: Array, sizes: Sequence[Dim]) -> Array:
    """The elements in row-major order of their true sizes, at the front of a flat array."""
    array = sized(array, sizes)
    return flat(array)


def unpack(array: Array, sizes: Sequence[Dim]) -> Array:
    """The inverse of ``pack``: a flat array with the true elements in front, at their bounds."""
    total = math.prod(sizes)
    array = sized(array, (total,)) if isinstance(total, Size) else array
    return reshape(array, sizes)
