"""Element-by-element functions of one operand, and making complex numbers."""

import jax
import jax.numpy as jnp
import torch
from jax import lax

from torch_tpu.lowering.platforms import by_platform
from torch_tpu.lowering.promotion import promote
from torch_tpu.lowering.registry import lowering

aten = torch.ops.aten


def floating(function):
    """The rule of a unary function that takes integers as numbers of the default float dtype."""
    return lambda self: function(*promote(self, to_float=True))


def _arctan(x):
    """On the CPU atan2 of what is 1 but no constant, with which XLA exchanges elements."""

    def of_no_constant(x):
        return lax.atan2(x, jnp.where(jnp.isnan(x), x, jnp.ones_like(x)))

    exchanges = not jnp.iscomplexobj(x)
    return by_platform(x, cpu=of_no_constant if exchanges else jnp.arctan, default=jnp.arctan)


def _arcsinh(x):
    """JAX takes the same side of a complex branch cut for either sign of a zero real part."""
    result = jnp.arcsinh(x)
    if not jnp.iscomplexobj(x):
        return result
    return lax.complex(jnp.copysign(result.real, x.real), result.imag)


for _name, _function in {
    "acos": jnp.arccos,
    "acosh": jnp.arccosh,
    "asin": jnp.arcsin,
    "asinh": _arcsinh,
    "atan": _arctan,
    "atanh": jnp.arctanh,
    "cos": jnp.cos,
    "cosh": jnp.cosh,
    "deg2rad": jnp.deg2rad,
    "erf": lax.erf,
    "erfc": lax.erfc,
    "exp": jnp.exp,
    "exp2": jnp.exp2,
    "expm1": jnp.expm1,
    "log": jnp.log,
    "log10": jnp.log10,
    "log1p": jnp.log1p,
    "log2": jnp.log2,
    "rad2deg": jnp.rad2deg,
    "reciprocal": jnp.reciprocal,
    "rsqrt": lax.rsqrt,
    "sigmoid": jax.nn.sigmoid,
    "sin": jnp.sin,
    "sinc": jnp.sinc,
    "sinh": jnp.sinh,
    "sqrt": jnp.sqrt,
    "tan": jnp.tan,
    "tanh": jnp.tanh,
}.items():
    lowering(getattr(aten, _name).default)(floating(_function))


def _unless_integer(function):
    """A rounding function, which leaves integers alone."""
    return lambda self: function(self) if jnp.issubdtype(self.dtype, jnp.floating) else self


for _name, _function in {
    "ceil": jnp.ceil,
    "floor": jnp.floor,
    "round": jnp.round,
    "trunc": jnp.trunc,
}.items():
    lowering(getattr(aten, _name).default)(_unless_integer(_function))


@lowering(aten.round.decimals)
def round_decimals(self, *, decimals):
    if not jnp.issubdtype(self.dtype, jnp.floating):
        return self
    (self,) = promote(self)
    if decimals >= 0:
        return jnp.round(self * 10.0**decimals) / 10.0**decimals
    return jnp.round(self / 10.0**-decimals) * 10.0**-decimals


@lowering(aten.frac.default)
def frac(self):
    return self - jnp.trunc(self)


@lowering(aten.abs.default)
def abs(self):
    return self if self.dtype == bool else jnp.abs(self)


@lowering(aten.neg.default)
def neg(self):
    return -self


@lowering(aten.sign.default)
def sign(self):
    # Not jnp.sign: PyTorch's sign of NaN is 0.
    return self if self.dtype == bool else (self > 0).astype(self.dtype) - (self < 0)


@lowering(aten.sgn.default)
def sgn(self):
    if not jnp.iscomplexobj(self):
        return sign(self)
    size = jnp.abs(self)
    return jnp.where(size == 0, 0, self / size)


@lowering(aten.angle.default)
def angle(self):
    (self,) = promote(self, to_float=True)
    if jnp.iscomplexobj(self):
        return jnp.arctan2(self.imag, self.real)
    pi = jnp.asarray(jnp.pi, self.dtype)
    return jnp.where(jnp.isnan(self), self, jnp.where(self < 0, pi, 0))


@lowering(aten.conj_physical.default, aten._conj_physical.default)
def conj_physical(self):
    return jnp.conj(self)


@lowering(aten.complex.default)
def complex(real, imag):
    return lax.complex(*jnp.broadcast_arrays(*promote(real, imag)))


@lowering(aten.polar.default)
def polar(abs, angle):
    abs, angle = jnp.broadcast_arrays(*promote(abs, angle))
    return lax.complex(abs * jnp.cos(angle), abs * jnp.sin(angle))


@lowering(aten.signbit.default)
def signbit(self):
    if self.dtype == bool:
        return jnp.zeros_like(self)
    return jnp.signbit(self) if jnp.issubdtype(self.dtype, jnp.floating) else self < 0


@lowering(aten.isnan.default)
def isnan(self):
    return self != self


@lowering(aten.isinf.default)
def isinf(self):
    if not jnp.issubdtype(self.dtype, jnp.inexact):
        return jnp.zeros(self.shape, bool)
    return jnp.isinf(self)


@lowering(aten.isposinf.default)
def isposinf(self):
    return isinf(self) & (self > 0)


@lowering(aten.isneginf.default)
def isneginf(self):
    return isinf(self) & (self < 0)


@lowering(aten.frexp.Tensor)
def frexp(self):
    mantissa, exponent = jnp.frexp(*promote(self))
    return mantissa, exponent.astype(jnp.int32)


@lowering(aten.logit.default)
def logit(self, eps=None):
    self, eps = promote(self, eps, to_float=True)
    if eps is not None:
        self = jnp.where(self < eps, eps, jnp.where(self > 1 - eps, 1 - eps, self))
    return jnp.log(self / (1 - self))


@lowering(aten.logit_backward.default)
def logit_backward(grad_output, self, eps=None):
    grad_output, self, eps = promote(grad_output, self, eps)
    slope = grad_output / (self * (1 - self))
    if eps is None:
        return jnp.where((self < 0) | (self > 1), jnp.nan, slope)
    return jnp.where((self < eps) | (self > 1 - eps), 0, slope)


@lowering(aten.sigmoid_backward.default)
def sigmoid_backward(grad_output, output):
    grad_output, output = promote(grad_output, output)
    return grad_output * jnp.conj(output * (1 - output))


@lowering(aten.tanh_backward.default)
def tanh_backward(grad_output, output):
    grad_output, output = promote(grad_output, output)
    return grad_output * jnp.conj(1 - output * output)
