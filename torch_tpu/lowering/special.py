"""Gamma, zeta and error functions and their kin."""

import math

import jax
import jax.numpy as jnp
import torch
from jax import lax

from torch_tpu.lowering.pointwise_unary import floating
from torch_tpu.lowering.promotion import promote
from torch_tpu.lowering.registry import lowering

aten = torch.ops.aten

for _name, _function in {
    "lgamma": lax.lgamma,
    "special_entr": jax.scipy.special.entr,
    "special_erfcx": jax.scipy.special.erfcx,
    "special_log_ndtr": jax.scipy.special.log_ndtr,
    "special_ndtri": jax.scipy.special.ndtri,
}.items():
    lowering(getattr(aten, _name).default)(floating(_function))


@lowering(aten.erfinv.default)
@floating
def erfinv(self):
    """XLA's approximation and a step of Newton's method."""
    first = lax.erf_inv(self)
    size, target = jnp.abs(first), jnp.abs(self)
    # Near the ends only the complement has digits left.
    central = target - lax.erf(size)
    missing = jnp.where(target < 0.5, central, lax.erfc(size) - (1 - target))
    step = missing * (math.sqrt(math.pi) / 2) * jnp.exp(jnp.square(size))
    return jnp.where(jnp.isfinite(first), jnp.copysign(size + step, self), first)


@lowering(aten.digamma.default)
@floating
def digamma(self):
    # PyTorch takes the limit from the zero's own side.
    return jnp.where(self == 0, -jnp.copysign(jnp.inf, self), lax.digamma(self))


def _trigamma(x):
    """By reflection below 1/2, where the series of zeta does not converge."""
    reflected = x < 0.5
    upper = lax.zeta(jnp.asarray(2, x.dtype), jnp.where(reflected, 1 - x, x))
    upper = jnp.where(x == jnp.inf, 0, upper)
    return jnp.where(reflected, jnp.square(jnp.pi / jnp.sin(jnp.pi * x)) - upper, upper)


@lowering(aten.polygamma.default)
def polygamma(n, self):
    if n == 0:
        return digamma(self)
    (self,) = promote(self, to_float=True)
    if n == 1:
        return _trigamma(self)
    return (-1) ** (n + 1) * float(math.factorial(n)) * special_zeta(float(n + 1), self)


def _same(self, other):
    return jnp.broadcast_arrays(*promote(self, other, to_float=True))


@lowering(aten.special_zeta.default, aten.special_zeta.other_scalar, aten.special_zeta.self_scalar)
def special_zeta(self, other):
    self, other = _same(self, other)
    pole = (other <= 0) & (other == jnp.floor(other))
    undefined = (other <= 0) & (self != jnp.floor(self))

    def below(state):
        return jnp.any(state[0] < 1)

    def raise_by_one(state):
        place, total = state
        low = place < 1
        term = jnp.where(low, jnp.power(place, -self), 0)
        return jnp.where(low, place + 1, place), total + term

    # XLA's series starts too late for negative numbers: their first terms are summed here.
    start = jnp.where(pole | undefined, 1, other), jnp.zeros_like(other)
    place, total = lax.while_loop(below, raise_by_one, start)
    value = jnp.where(undefined, jnp.nan, total + lax.zeta(self, place))
    value = jnp.where(self < 1, jnp.nan, jnp.where(pole, jnp.inf, value))
    return jnp.where(self == 1, jnp.inf, value)


def _incomplete_gamma(function, none, whole):
    """An incomplete gamma function, with its limits where PyTorch gives them before NaN."""

    def rule(self, other):
        self, other = _same(self, other)
        value = jnp.where(jnp.isinf(other), whole, function(self, other))
        at_infinity = jnp.where(jnp.isinf(other), jnp.nan, none)
        value = jnp.where(jnp.isinf(self), at_infinity, value)
        value = jnp.where(other == 0, none, value)
        value = jnp.where(self == 0, jnp.where(other > 0, whole, jnp.nan), value)
        return jnp.where((self < 0) | (other < 0), jnp.nan, value)

    return rule


lowering(aten.igamma.default)(_incomplete_gamma(lax.igamma, 0.0, 1.0))
lowering(aten.igammac.default)(_incomplete_gamma(lax.igammac, 1.0, 0.0))


def _x_log(logarithm):
    """x log(y), 0 where x is 0 unless y is NaN."""

    def rule(self, other):
        self, other = _same(self, other)
        product = jnp.where(self == 0, 0, self * logarithm(other))
        return jnp.where(jnp.isnan(other), jnp.nan, product)

    return rule


lowering(aten.xlogy.Tensor, aten.xlogy.Scalar_Other, aten.xlogy.Scalar_Self)(_x_log(jnp.log))
lowering(
    aten.special_xlog1py.default,
    aten.special_xlog1py.other_scalar,
    aten.special_xlog1py.self_scalar,
)(_x_log(jnp.log1p))
