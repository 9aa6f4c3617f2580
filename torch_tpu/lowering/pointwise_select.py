"""Element-by-element selection: extrema, bounds, where, and filling and copying values."""

import jax.numpy as jnp
import torch

from torch_tpu.lowering import dtypes
from torch_tpu.lowering.promotion import cast, promote, result_type
from torch_tpu.lowering.registry import lowering

aten = torch.ops.aten


@lowering(aten.maximum.default)
def maximum(self, other):
    return jnp.maximum(*promote(self, other))


@lowering(aten.minimum.default)
def minimum(self, other):
    return jnp.minimum(*promote(self, other))


@lowering(aten.fmax.default)
def fmax(self, other):
    return jnp.fmax(*promote(self, other))


@lowering(aten.fmin.default)
def fmin(self, other):
    return jnp.fmin(*promote(self, other))


@lowering(aten.clamp.default, aten.clamp.Tensor)
def clamp(self, min=None, max=None):
    self, min, max = promote(self, min, max)
    if min is not None:
        self = jnp.maximum(self, min)
    return self if max is None else jnp.minimum(self, max)


@lowering(aten.clamp_min.default, aten.clamp_min.Tensor)
def clamp_min(self, min):
    return clamp(self, min, None)


@lowering(aten.clamp_max.default, aten.clamp_max.Tensor)
def clamp_max(self, max):
    return clamp(self, None, max)


@lowering(aten.where.self)
def where(condition, self, other):
    dtype = result_type(self, other)
    return jnp.where(condition != 0, cast(self, dtype), cast(other, dtype))


@lowering(aten.nan_to_num.default)
def nan_to_num(self, nan=None, posinf=None, neginf=None):
    if not jnp.issubdtype(self.dtype, jnp.inexact):
        return self
    if jnp.iscomplexobj(self):
        parts = (nan_to_num(part, nan, posinf, neginf) for part in (self.real, self.imag))
        return jnp.asarray(next(parts) + 1j * next(parts))
    limits = jnp.finfo(self.dtype)

    def replacement(given, default):
        value = jnp.asarray(default if given is None else given)
        return value.astype(self.dtype)

    result = jnp.where(jnp.isnan(self), replacement(nan, 0), self)
    result = jnp.where(self == jnp.inf, replacement(posinf, limits.max), result)
    return jnp.where(self == -jnp.inf, replacement(neginf, limits.min), result)


@lowering(aten.fill.Scalar, aten.fill.Tensor)
def fill(self, value):
    return jnp.broadcast_to(cast(value, dtypes.to_torch(self.dtype)), self.shape)


@lowering(aten.zero.default)
def zero(self):
    return jnp.zeros_like(self)


@lowering(aten.copy.default)
def copy(self, src, non_blocking=False):
    return fill(self, src)
