"""Tensors from numbers: ranges, constants, the identity."""

import math
import operator

import jax.numpy as jnp
import torch
from jax import lax

from torch_tpu.lowering import dtypes, sizes
from torch_tpu.lowering.registry import lowering

aten = torch.ops.aten

RANGE_NUMBERS = ("start", "end", "step")


# Ranges whose length the numbers decide, so they are static


def _progression(start, step, length, dtype):
    """``start + step * i``, exact for integers and correctly rounded for what float64 holds."""
    last = start + step * max(0, length - 1)
    whole = all(float(number).is_integer() for number in (start, step))
    if whole and max(abs(start), abs(last)) < 2**63:
        narrow = max(abs(start), abs(last), length) < 2**31
        compute = jnp.int32 if narrow else jnp.int64
        start, step = int(start), int(step)
    else:
        compute = jnp.float64
    return _rounded(lax.iota(compute, length) * compute(step) + compute(start), dtype)


def _bounded_progression(start, end, step, dtype):
    """A range of integers whose ends are known when it is made, as long as it may become."""
    low, high = (start, end) if step > 0 else (end, start)
    least = 0 if isinstance(low, sizes.Size) else low
    length = max(0, -((least - operator.index(high)) // abs(step)))
    return _rounded(lax.iota(jnp.int64, length) * step + sizes.value(start), dtype)


def _arange_length(start, end, step):
    if all(isinstance(number, int) for number in (start, end, step)):
        return max(0, -((start - end) // step))
    return max(0, math.ceil((end - start) / step))


@lowering(aten.arange.start_step, aten.arange.start_out, static=RANGE_NUMBERS)
def arange(start, end, step=1, *, dtype=None, layout=None, device=None, pin_memory=None):
    if any(isinstance(number, sizes.Size) for number in (start, end)):
        return _bounded_progression(start, end, step, dtype)
    if dtype == torch.int64:
        start, end, step = int(start), int(end), int(step)
    length = _arange_length(start, end, step)
    if dtype is not None and not dtype.is_floating_point:
        start, step = int(start), int(step)
    return _progression(start, step, length, dtype)


@lowering(aten.arange.start, static=RANGE_NUMBERS)
def arange_start(start, end, **options):
    return arange(start, end, 1, **options)


@lowering(aten.arange.default, aten.arange.out, static=RANGE_NUMBERS)
def arange_end(end, **options):
    return arange(0, end, 1, **options)


@lowering(aten.range.step, aten.range.out, static=RANGE_NUMBERS)
def range_(start, end, step=1, *, dtype=None, layout=None, device=None, pin_memory=None):
    return _progression(start, step, int((end - start) / step) + 1, dtype)


@lowering(aten.range.default, aten.range.out_, static=RANGE_NUMBERS)
def range_start(start, end, **options):
    return range_(start, end, 1, **options)


# Ranges of a given length between numbers known when the program runs


def _between(start, end, steps, dtype):
    """linspace before rounding, from both ends inwards as PyTorch computes it."""
    start, end = jnp.asarray(start), jnp.asarray(end)
    is_complex = any(jnp.issubdtype(bound.dtype, jnp.complexfloating) for bound in (start, end))
    compute = jnp.complex128 if is_complex else jnp.float64
    if dtype is not None and (dtype.is_floating_point or dtype.is_complex):
        compute = dtypes.to_jax(dtypes.opmath(dtype))
    elif dtype is not None:
        start, end = (bound.astype(dtypes.to_jax(dtype)) for bound in (start, end))
    start, end = start.astype(compute), end.astype(compute)
    if steps == 1:
        return start.reshape(1)
    place = lax.iota(jnp.int32, steps)
    step = (end - start) / max(1, steps - 1)
    forward = start + step * place.astype(compute)
    backward = end - step * (steps - 1 - place).astype(compute)
    return jnp.where(place < steps // 2, forward, backward)


def _between_integers(start, end, steps, dtype):
    """linspace of an integer dtype, exact: XLA would round a step before it is multiplied."""
    start, end = (
        jnp.asarray(bound).astype(dtypes.to_jax(dtype)).astype(jnp.int64) for bound in (start, end)
    )
    parts = max(1, steps - 1)
    return lax.div(start * parts + (end - start) * lax.iota(jnp.int64, steps), jnp.int64(parts))


def _overloads(packet):
    names = ("default", "Tensor_Tensor", "Tensor_Scalar", "Scalar_Tensor")
    outs = ("out", "Tensor_Tensor_out", "Tensor_Scalar_out", "Scalar_Tensor_out")
    return [getattr(packet, name) for name in names + outs]


def _rounded(values, dtype):
    """Integers take the whole part, which the float result alone doesn't say."""
    return values if dtype is None else values.astype(dtypes.to_jax(dtype))


@lowering(*_overloads(aten.linspace))
def linspace(start, end, steps, *, dtype=None, layout=None, device=None, pin_memory=None):
    if dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
        return _between_integers(start, end, steps, dtype)
    return _rounded(_between(start, end, steps, dtype), dtype)


@lowering(*_overloads(aten.logspace), static=("base",))
def logspace(
    start, end, steps, base=10.0, *, dtype=None, layout=None, device=None, pin_memory=None
):
    exponents = _between(start, end, steps, dtype)
    return _rounded(jnp.power(jnp.asarray(base, exponents.dtype), exponents), dtype)


# Constants


def _constant(size, value, dtype):
    value = jnp.asarray(value)
    return jnp.broadcast_to(value if dtype is None else value.astype(dtypes.to_jax(dtype)), size)


@lowering(aten.full.default, aten.full.out)
def full(size, fill_value, *, dtype=None, **options):
    return _constant(size, fill_value, dtype)


@lowering(aten.scalar_tensor.default)
def scalar_tensor(s, *, dtype=None, **options):
    return _constant((), s, dtype)


@lowering(aten.full_like.default)
def full_like(self, fill_value, *, dtype=None, **options):
    return _constant(self.shape, fill_value, dtype or dtypes.to_torch(self.dtype))


@lowering(aten.new_full.default)
def new_full(self, size, fill_value, *, dtype=None, **options):
    return _constant(size, fill_value, dtype or dtypes.to_torch(self.dtype))


@lowering(aten.zeros.default)
def zeros(size, *, dtype=None, **options):
    return _constant(size, 0.0, dtype)


@lowering(aten.ones.default, aten.ones.out)
def ones(size, *, dtype=None, **options):
    return _constant(size, 1.0, dtype)


@lowering(aten.zeros_like.default)
def zeros_like(self, *, dtype=None, **options):
    return _constant(self.shape, 0, dtype or dtypes.to_torch(self.dtype))


@lowering(aten.ones_like.default)
def ones_like(self, *, dtype=None, **options):
    return _constant(self.shape, 1, dtype or dtypes.to_torch(self.dtype))


@lowering(aten.new_zeros.default)
def new_zeros(self, size, *, dtype=None, **options):
    return _constant(size, 0, dtype or dtypes.to_torch(self.dtype))


@lowering(aten.new_ones.default)
def new_ones(self, size, *, dtype=None, **options):
    return _constant(size, 1, dtype or dtypes.to_torch(self.dtype))


@lowering(aten.eye.m, aten.eye.m_out)
def eye_m(n, m, *, dtype=None, layout=None, device=None, pin_memory=None):
    rows, columns = (lax.broadcasted_iota(jnp.int32, (n, m), axis) for axis in (0, 1))
    return _rounded(rows == columns, dtype)


@lowering(aten.eye.default, aten.eye.out)
def eye(n, **options):
    return eye_m(n, n, **options)


# Memory that nothing was written to yet: captured graphs alone name these ops


@lowering(aten.empty.memory_format, aten.empty_permuted.default)
def empty(size, layout_of_dims=None, *, dtype=None, **options):
    return jnp.zeros(size, dtypes.to_jax(dtype or torch.get_default_dtype()))


@lowering(aten.empty_like.default)
def empty_like(self, *, dtype=None, **options):
    return jnp.zeros(self.shape, self.dtype if dtype is None else dtypes.to_jax(dtype))


@lowering(aten.new_empty.default, aten.new_empty_strided.default)
def new_empty(self, size, stride=None, *, dtype=None, **options):
    return jnp.zeros(size, self.dtype if dtype is None else dtypes.to_jax(dtype))


@lowering(aten.empty_strided.default)
def empty_strided(size, stride, **options):
    return empty(size, **options)
