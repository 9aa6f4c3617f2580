"""How a tensor reads its storage and writes through to it: strided views as XLA ops.

A view spec is decomposed against the dims of the storage's value into a chain of stages, each a
pair of pure functions: ``get`` computes the stage's output, ``put`` gives the stage's input back
with a new output in place of the old one. Reading runs the ``get``s, writing the ``put``s in
reverse. The chain depends on dims and spec alone and is memoised.
"""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
import functools
import math
from collections.abc import Iterator
from typing import Any

import jax.numpy as jnp
import numpy as np
import torch
from jax import lax

from torch_tpu.lowering import dtypes

Dims = tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class ViewSpec:
    """A tensor's geometry over its storage, counted in elements of ``dtype``."""

    sizes: Dims
    strides: Dims
    offset: int
    dtype: torch.dtype
    conj: bool = False
    neg: bool = False


_by_select: contextvars.ContextVar[bool] = contextvars.ContextVar("by_select", default=False)


@contextlib.contextmanager
def writing_by_select() -> Iterator[None]:
    """Inside, parts of arrays are written as new arrays."""
    token = _by_select.set(True)
    try:
        yield
    finally:
        _by_select.reset(token)


def writes_in_place() -> bool:
    """Whether a part may be written as an update, which XLA does in its operand's buffer."""
    return not _by_select.get()


def read(base: Any, spec: ViewSpec) -> Any:
    """The array that a tensor with this spec sees in a storage whose elements are ``base``."""
    if 0 in spec.sizes:
        return jnp.zeros(spec.sizes, dtypes.to_jax(spec.dtype))
    for stage in _stages(base.shape, dtypes.to_torch(base.dtype), _geometry(spec)):
        base = stage.get(base)
    return _mathematical_bits(base, spec)


def write(base: Any, spec: ViewSpec, value: Any) -> Any:
    """``base`` with ``value`` in the elements that the view covers.

    Where the view covers all of them ``base`` gives its shape and dtype only and is not read.
    """
    if 0 in spec.sizes:
        return base
    value = _mathematical_bits(value, spec)
    stages = _stages(base.shape, dtypes.to_torch(base.dtype), _geometry(spec))
    partial = [place for place, stage in enumerate(stages) if stage.keeps_rest]
    seen = [base]
    for stage in stages[: partial[-1]] if partial else ():
        seen.append(stage.get(seen[-1]))
    for place in reversed(range(len(stages))):
        value = stages[place].put(seen[place] if place < len(seen) else None, value)
    return value


def _mathematical_bits(array: Any, spec: ViewSpec) -> Any:
    """The conjugate and negative bits applied; each is its own inverse."""
    if spec.conj:
        array = jnp.conj(array)
    return -array if spec.neg else array


def _geometry(spec: ViewSpec) -> ViewSpec:
    return dataclasses.replace(spec, conj=False, neg=False) if spec.conj or spec.neg else spec


class Stage:
    """One step from the storage's value to the view; ``keeps_rest`` where ``put`` reads ``old``."""

    keeps_rest = False

    def get(self, array: Any) -> Any:
        raise NotImplementedError

    def put(self, old: Any, value: Any) -> Any:
        raise NotImplementedError


@dataclasses.dataclass(frozen=True)
class Reshape(Stage):
    source: Dims
    target: Dims

    def get(self, array: Any) -> Any:
        return lax.reshape(array, self.target)

    def put(self, old: Any, value: Any) -> Any:
        return lax.reshape(value, self.source)


@dataclasses.dataclass(frozen=True)
class Transpose(Stage):
    permutation: Dims

    def get(self, array: Any) -> Any:
        return lax.transpose(array, self.permutation)

    def put(self, old: Any, value: Any) -> Any:
        return lax.transpose(value, tuple(np.argsort(self.permutation).tolist()))


@dataclasses.dataclass(frozen=True)
class Broadcast(Stage):
    """Expanded dims (stride 0). A write stores the first of the elements that coincide."""

    sizes: Dims
    kept: Dims

    def get(self, array: Any) -> Any:
        return lax.broadcast_in_dim(array, self.sizes, self.kept)

    def put(self, old: Any, value: Any) -> Any:
        return value[tuple(slice(None) if d in self.kept else 0 for d in range(len(self.sizes)))]


@dataclasses.dataclass(frozen=True)
class PadEnd(Stage):
    """Room past the end of each dim, so that a window of whole rows can be cut."""

    source: Dims
    target: Dims

    def get(self, array: Any) -> Any:
        room = [(0, long - short, 0) for short, long in zip(self.source, self.target, strict=True)]
        return lax.pad(array, jnp.zeros((), array.dtype), room)

    def put(self, old: Any, value: Any) -> Any:
        return lax.slice(value, (0,) * len(self.source), self.source)


@dataclasses.dataclass(frozen=True)
class Slice(Stage):
    source: Dims
    starts: Dims
    limits: Dims
    steps: Dims
    keeps_rest = True

    def get(self, array: Any) -> Any:
        return lax.slice(array, self.starts, self.limits, self.steps)

    def put(self, old: Any, value: Any) -> Any:
        if all(step == 1 for step in self.steps) and writes_in_place():
            # XLA updates a donated buffer in place for this op.
            starts = [jnp.int32(start) for start in self.starts]
            return lax.dynamic_update_slice(old, value, starts, allow_negative_indices=False)
        spread, inside = [], jnp.ones((), bool)
        for axis, (size, start, limit, step) in enumerate(
            zip(self.source, self.starts, self.limits, self.steps, strict=True)
        ):
            spread.append((start, size - limit, step - 1))
            if (start, limit, step) != (0, size, 1):
                place = lax.broadcasted_iota(jnp.int32, self.source, axis)
                inside &= (place >= start) & (place < limit) & ((place - start) % step == 0)
        return jnp.where(inside, lax.pad(value, jnp.zeros((), value.dtype), spread), old)


@dataclasses.dataclass(frozen=True)
class Gather(Stage):
    """Overlapping or irregular dims read from one axis through computed indices."""

    axis: int
    offset: int
    sizes: Dims
    steps: Dims
    keeps_rest = True

    def _places(self) -> tuple[Any, ...]:
        last = self.offset + sum((n - 1) * s for n, s in zip(self.sizes, self.steps, strict=True))
        dtype = jnp.int32 if last < 2**31 else jnp.int64
        index = jnp.full(self.sizes, self.offset, dtype)
        for dim, step in enumerate(self.steps):
            index += step * lax.broadcasted_iota(dtype, self.sizes, dim)
        return (slice(None),) * self.axis + (index,)

    def get(self, array: Any) -> Any:
        return array.at[self._places()].get(mode="promise_in_bounds")

    def put(self, old: Any, value: Any) -> Any:
        return old.at[self._places()].set(value, mode="promise_in_bounds")


@dataclasses.dataclass(frozen=True)
class Bitcast(Stage):
    """Real elements read as another real dtype; a trailing dim holds the parts of the wider."""

    source: torch.dtype
    target: torch.dtype

    def get(self, array: Any) -> Any:
        return _bitcast(array, self.target)

    def put(self, old: Any, value: Any) -> Any:
        return _bitcast(value, self.source)


@dataclasses.dataclass(frozen=True)
class ComplexToPairs(Stage):
    def get(self, array: Any) -> Any:
        return jnp.stack([array.real, array.imag], axis=-1)

    def put(self, old: Any, value: Any) -> Any:
        return lax.complex(value[..., 0], value[..., 1])


@dataclasses.dataclass(frozen=True)
class PairsToComplex(Stage):
    def get(self, array: Any) -> Any:
        return lax.complex(array[..., 0], array[..., 1])

    def put(self, old: Any, value: Any) -> Any:
        return jnp.stack([value.real, value.imag], axis=-1)


def _bitcast(array: Any, dtype: torch.dtype) -> Any:
    if array.dtype == jnp.bool_:
        array = array.astype(jnp.uint8)
    if dtype == torch.bool:
        return lax.bitcast_convert_type(array, jnp.uint8) != 0
    return lax.bitcast_convert_type(array, dtypes.to_jax(dtype))


@functools.cache
def _stages(dims: Dims, dtype: torch.dtype, spec: ViewSpec) -> tuple[Stage, ...]:
    stages = []
    if dtype != spec.dtype:
        retyped, dims = _retype(dims, dtype, spec.dtype)
        stages += retyped
    if dims != spec.sizes or spec.offset or not _is_contiguous(spec.sizes, spec.strides):
        stages += _strided(dims, spec)
    return tuple(stages)


def _is_contiguous(sizes: Dims, strides: Dims) -> bool:
    expected = _row_major(sizes)
    return all(n == 1 or s == e for n, s, e in zip(sizes, strides, expected, strict=True))


def _row_major(dims: Dims) -> Dims:
    return tuple(math.prod(dims[place + 1 :]) for place in range(len(dims)))


def _reshaped(source: Dims, target: Dims) -> list[Stage]:
    return [] if source == target else [Reshape(source, target)]


def _sliced(source: Dims, starts: Dims, limits: Dims, steps: Dims) -> list[Stage]:
    whole = not any(starts) and limits == source and all(step == 1 for step in steps)
    return [] if whole else [Slice(source, starts, limits, steps)]


def _retype(dims: Dims, source: torch.dtype, target: torch.dtype) -> tuple[list[Stage], Dims]:
    """Stages from elements of one dtype to elements of another, and the dims then."""
    stages: list[Stage] = []
    if source.is_complex:
        stages.append(ComplexToPairs())
        source, dims = source.to_real(), (*dims, 2)
    part = target.to_real() if target.is_complex else target
    if source != part:
        if source.itemsize < part.itemsize:
            parts, dims = _split_last(dims, part.itemsize // source.itemsize)
            stages += parts
            dims = dims[:-1]
        elif source.itemsize > part.itemsize:
            dims = (*dims, source.itemsize // part.itemsize)
        stages.append(Bitcast(source, part))
    if target.is_complex:
        pairs, dims = _split_last(dims, 2)
        stages += [*pairs, PairsToComplex()]
        dims = dims[:-1]
    return stages, dims


def _split_last(dims: Dims, parts: int) -> tuple[list[Stage], Dims]:
    """Stages that give the array a last dim of ``parts`` elements, dropping an odd rest."""
    if dims and dims[-1] % parts == 0:
        target = (*dims[:-1], dims[-1] // parts, parts)
        return _reshaped(dims, target), target
    count = math.prod(dims)
    whole = count // parts * parts
    target = (count // parts, parts)
    stages = [
        *_reshaped(dims, (count,)),
        *_sliced((count,), (0,), (whole,), (1,)),
        *_reshaped((whole,), target),
    ]
    return stages, target


@dataclasses.dataclass
class Group:
    """Neighbouring dims of the base read as one axis, and the view's dims that walk along it."""

    size: int
    unit: int  # elements of the base from one place of the axis to the next
    start: int = 0
    walks: list[tuple[int, int]] = dataclasses.field(default_factory=list)  # (size, step)

    def reach(self) -> int:
        return self.start + sum((size - 1) * step for size, step in self.walks)


def _group(sizes: list[int], offset: int, walks: list[tuple[int, int]]) -> list[Group]:
    """Merge as few neighbouring base dims as let every walk stay on one axis.

    ``walks`` are the view's (size, stride), widest stride first.
    """
    while True:
        groups = [Group(n, unit) for n, unit in zip(sizes, _row_major(tuple(sizes)), strict=True)]
        rest = offset
        for group in groups:
            group.start, rest = divmod(rest, group.unit)
        merge = None
        for size, stride in walks:
            place = next(p for p, group in enumerate(groups) if group.unit <= stride)
            if stride % groups[place].unit:
                merge = place
                break
            groups[place].walks.append((size, stride // groups[place].unit))
        else:
            over = (p for p, group in enumerate(groups) if group.reach() >= group.size)
            merge = next((place - 1 for place in over), None)
        if merge is None:
            return groups
        if merge < 0:
            raise ValueError("view reaches beyond its storage")
        sizes = [*sizes[:merge], sizes[merge] * sizes[merge + 1], *sizes[merge + 2 :]]


@dataclasses.dataclass
class Factors:
    """How one group is cut: padded, windowed, then reshaped so that each walk has its own dim."""

    padded: int
    window: tuple[int, int]
    dims: list[int]
    starts: list[int]
    limits: list[int]
    steps: list[int]
    kept: list[int]
    gather: tuple[int, Dims, Dims] | None = None  # offset, sizes, steps


def _factor(group: Group) -> Factors:
    size, whole = group.size, (0, group.size)
    if len(group.walks) <= 1:
        count, step = group.walks[0] if group.walks else (1, 1)
        limit = group.start + (count - 1) * step + 1
        kept = [count] if group.walks else []
        return Factors(size, whole, [size], [group.start], [limit], [step], kept)
    counts, steps = map(tuple, zip(*group.walks, strict=True))
    nested = all(
        wide % narrow == 0 and count <= wide // narrow
        for wide, narrow, count in zip(steps, steps[1:], counts[1:], strict=False)
    )
    if not nested:
        gather = (group.start, counts, steps)
        return Factors(size, whole, [size], [0], [size], [1], [size], gather)
    radices = [wide // narrow for wide, narrow in zip(steps, steps[1:], strict=False)] + [steps[-1]]
    digits, rest = [], group.start
    for step in steps:
        digit, rest = divmod(rest, step)
        digits.append(digit)
    digits.append(rest)
    padded, window = size, whole
    fits = all(d + n <= r for d, n, r in zip(digits[1:], counts[1:], radices, strict=False))
    if size % steps[0] or not fits:
        window = (group.start, group.start + counts[0] * steps[0])
        padded, digits = max(size, window[1]), [0] * len(digits)
    dims = [(window[1] - window[0]) // steps[0], *radices]
    limits = [d + n for d, n in zip(digits, (*counts, 1), strict=True)]
    return Factors(padded, window, dims, digits, limits, [1] * len(dims), list(counts))


def _concatenated(parts: Iterator[list[int]]) -> Dims:
    return tuple(item for part in parts for item in part)


def _strided(dims: Dims, spec: ViewSpec) -> list[Stage]:
    """Stages from a row-major base to a strided view of it."""
    walking = [
        d for d, (n, s) in enumerate(zip(spec.sizes, spec.strides, strict=True)) if n > 1 and s
    ]
    order = sorted(walking, key=lambda d: (-spec.strides[d], -spec.sizes[d], d))
    walks = [(spec.sizes[d], spec.strides[d]) for d in order]
    groups = _group([n for n in dims if n != 1] or [1], spec.offset, walks)
    cuts = [_factor(group) for group in groups]

    stages: list[Stage] = []
    sizes = tuple(group.size for group in groups)
    padded = tuple(cut.padded for cut in cuts)
    if any(cut.window != (0, group.size) for cut, group in zip(cuts, groups, strict=True)):
        stages += _reshaped(dims, sizes)
        if padded != sizes:
            stages.append(PadEnd(sizes, padded))
        starts = tuple(cut.window[0] for cut in cuts)
        dims = tuple(cut.window[1] - cut.window[0] for cut in cuts)
        stages += _sliced(padded, starts, tuple(cut.window[1] for cut in cuts), (1,) * len(cuts))
    factored = _concatenated(cut.dims for cut in cuts)
    starts = _concatenated(cut.starts for cut in cuts)
    limits = _concatenated(cut.limits for cut in cuts)
    steps = _concatenated(cut.steps for cut in cuts)
    kept = _concatenated(cut.kept for cut in cuts)
    slices = _sliced(factored, starts, limits, steps)
    if slices:
        stages += [*_reshaped(dims, factored), *slices]
        dims = tuple(
            (limit - start + step - 1) // step
            for start, limit, step in zip(starts, limits, steps, strict=True)
        )
    stages += _reshaped(dims, kept)

    axis = 0
    for cut in cuts:
        if cut.gather is not None:
            stages.append(Gather(axis, *cut.gather))
            axis += len(cut.gather[1])
        else:
            axis += len(cut.kept)

    in_order = sorted(walking)
    permutation = tuple(order.index(d) for d in in_order)
    if permutation != tuple(range(len(permutation))):
        stages.append(Transpose(permutation))
    moved = tuple(spec.sizes[d] for d in in_order)
    if any(n > 1 and not s for n, s in zip(spec.sizes, spec.strides, strict=True)):
        stages.append(Broadcast(spec.sizes, tuple(in_order)))
    else:
        stages += _reshaped(moved, spec.sizes)
    return stages
