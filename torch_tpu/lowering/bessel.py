"""Bessel and Airy functions."""

import jax.numpy as jnp
import torch
from jax import lax

from torch_tpu.lowering import bessel_coefficients as coefficients
from torch_tpu.lowering.pointwise_unary import floating
from torch_tpu.lowering.registry import lowering

aten = torch.ops.aten


def _polynomial(factors, x):
    """The polynomial with these factors, highest power first."""
    result = jnp.full_like(x, factors[0])
    for factor in factors[1:]:
        result = result * x + factor
    return result


def _ratio(numerator, denominator, x):
    return _polynomial(numerator, x) / _polynomial(denominator, x)


def _chebyshev_series(factors, x):
    """The Chebyshev series in x / 2, highest order first, by Clenshaw's recurrence."""
    before, last, result = jnp.zeros_like(x), jnp.zeros_like(x), jnp.full_like(x, factors[0])
    for factor in factors[1:]:
        before, last = last, result
        result = x * last - before + factor
    return 0.5 * (result - before)


lowering(aten.special_i0e.default)(floating(lax.bessel_i0e))
lowering(aten.special_i1e.default)(floating(lax.bessel_i1e))


@lowering(aten.i0.default, aten.special_modified_bessel_i0.default)
@floating
def i0(x):
    return jnp.exp(jnp.abs(x)) * lax.bessel_i0e(x)


@lowering(aten.special_i1.default, aten.special_modified_bessel_i1.default)
@floating
def i1(x):
    return jnp.exp(jnp.abs(x)) * lax.bessel_i1e(x)


def _far(order, x):
    """Amplitude parts and phase of J and Y away from 0."""
    table = "J1_" if order else "J0_"
    far = {name: getattr(coefficients, table + name) for name in ("PP", "PQ", "QP", "QQ")}
    square = 25 / (x * x)
    scale = (2 / jnp.pi) ** 0.5 / jnp.sqrt(x)
    cosine = _ratio(far["PP"], far["PQ"], square) * scale
    sine = 5 / x * _ratio(far["QP"], far["QQ"], square) * scale
    return cosine, sine, x - (2 * order + 1) * jnp.pi / 4


def _j0(x):
    x = jnp.abs(x)
    square = x * x
    # The first two zeros are factors, so that the relative error stays small around them.
    near = (square - 5.78318596294678452118) * (square - 30.4712623436620863991)
    near = near * _ratio(coefficients.J0_RP, coefficients.J0_RQ, square)
    cosine, sine, phase = _far(0, x)
    return jnp.where(x <= 5, near, cosine * jnp.cos(phase) - sine * jnp.sin(phase))


def _j1(x):
    size = jnp.abs(x)
    square = size * size
    near = (square - 14.6819706421238932572) * (square - 49.2184563216946036703)
    near = near * size * _ratio(coefficients.J1_RP, coefficients.J1_RQ, square)
    cosine, sine, phase = _far(1, size)
    far = cosine * jnp.cos(phase) - sine * jnp.sin(phase)
    return jnp.where(x < 0, -1, 1) * jnp.where(size <= 5, near, far)


def _second_kind(order, near, x):
    cosine, sine, phase = _far(order, x)
    far = cosine * jnp.sin(phase) + sine * jnp.cos(phase)
    return jnp.where(x == 0, -jnp.inf, jnp.where(x <= 5, near, far))


@lowering(aten.special_bessel_y0.default)
@floating
def special_bessel_y0(x):
    near = _ratio(coefficients.Y0_YP, coefficients.Y0_YQ, x * x)
    return _second_kind(0, near + 2 / jnp.pi * jnp.log(x) * _j0(x), x)


@lowering(aten.special_bessel_y1.default)
@floating
def special_bessel_y1(x):
    near = x * _ratio(coefficients.Y1_YP, coefficients.Y1_YQ, x * x)
    return _second_kind(1, near + 2 / jnp.pi * (_j1(x) * jnp.log(x) - 1 / x), x)


lowering(aten.special_bessel_j0.default)(floating(_j0))
lowering(aten.special_bessel_j1.default)(floating(_j1))


def _scaled_k0(x):
    """exp(x) K0(x)"""
    series = _chebyshev_series(coefficients.K0_A, x * x - 2)
    near = (series - jnp.log(0.5 * x) * lax.bessel_i0e(x) * jnp.exp(x)) * jnp.exp(x)
    far = _chebyshev_series(coefficients.K0_B, 8 / x - 2) / jnp.sqrt(x)
    return jnp.where(x == 0, jnp.inf, jnp.where(x <= 2, near, far))


def _scaled_k1(x):
    """exp(x) K1(x)"""
    series = _chebyshev_series(coefficients.K1_A, x * x - 2) / x
    near = (series + jnp.log(0.5 * x) * lax.bessel_i1e(x) * jnp.exp(x)) * jnp.exp(x)
    far = _chebyshev_series(coefficients.K1_B, 8 / x - 2) / jnp.sqrt(x)
    return jnp.where(x == 0, jnp.inf, jnp.where(x <= 2, near, far))


lowering(aten.special_scaled_modified_bessel_k0.default)(floating(_scaled_k0))
lowering(aten.special_scaled_modified_bessel_k1.default)(floating(_scaled_k1))
lowering(aten.special_modified_bessel_k0.default)(floating(lambda x: jnp.exp(-x) * _scaled_k0(x)))
lowering(aten.special_modified_bessel_k1.default)(floating(lambda x: jnp.exp(-x) * _scaled_k1(x)))


@lowering(aten.special_spherical_bessel_j0.default)
@floating
def special_spherical_bessel_j0(x):
    factors = (1 / 6227020800, -1 / 39916800, 1 / 362880, -1 / 5040, 1 / 120, -1 / 6, 1)
    value = jnp.where(jnp.abs(x) < 0.5, _polynomial(factors, x * x), jnp.sin(x) / x)
    return jnp.where(jnp.isinf(x), 0, value)


def _airy_series(first):
    """Taylor factors in x**3: each is the one before over n (n - 1), n = first + 3, first + 6..."""
    factors = [1.0]
    for power in range(first + 3, first + 60, 3):
        factors.append(factors[-1] / (power * (power - 1)))
    return factors[::-1]


@lowering(aten.special_airy_ai.default)
@floating
def special_airy_ai(x):
    size = jnp.abs(x)
    root = jnp.sqrt(size)
    zeta = 2 * size * root / 3
    amplitude = jnp.pi**-0.5 / jnp.sqrt(root)
    inverse = 1 / zeta
    ratio = _ratio(coefficients.AIRY_AN, coefficients.AIRY_AD, inverse)
    right = 0.5 * amplitude * ratio * jnp.exp(-zeta)
    square = inverse * inverse
    cosine = inverse * _ratio(coefficients.AIRY_AGN, coefficients.AIRY_AGD, square)
    sine = 1 + square * _ratio(coefficients.AIRY_AFN, coefficients.AIRY_AFD, square)
    phase = zeta + jnp.pi / 4
    left = amplitude * (jnp.sin(phase) * sine - jnp.cos(phase) * cosine)
    cube = x * x * x
    even = 0.355028053887817239260 * _polynomial(_airy_series(0), cube)
    middle = even - 0.258819403792806798405 * x * _polynomial(_airy_series(1), cube)
    value = jnp.where(x < -2.09, left, jnp.where(x >= 2.09, right, middle))
    # PyTorch gives NaN at both infinities.
    return jnp.where(jnp.isinf(x), jnp.nan, value)
