"""Orthogonal polynomials of an order that each element chooses."""

import jax.numpy as jnp
import torch
from jax import lax

from torch_tpu.lowering.promotion import promote
from torch_tpu.lowering.registry import lowering

aten = torch.ops.aten


def _register(name, rule):
    packet = getattr(aten, f"special_{name}")
    lowering(packet.default, packet.x_scalar, packet.n_scalar)(rule)


def _operands(x, n):
    """x, and the order as an integer, cut towards 0: -1 where it is negative or NaN."""
    x, n = jnp.broadcast_arrays(*promote(x, n, to_float=True))
    return x, jnp.where(n > -1, n, -1).astype(jnp.int32)


def _recurrence(first, step, x, order, by_loop=True):
    """P(order) from P(0) = 1, P(1) = first and P(k + 1) = step(k, P(k), P(k - 1)).

    Elements outside ``by_loop`` take no part in how long the loop runs.
    """

    def grows(state):
        k, _, last = state
        return jnp.any(by_loop & (k < order) & ~jnp.isnan(last))

    def grow(state):
        k, before, last = state
        following = step(k.astype(x.dtype), last, before)
        growing = k < order
        return k + 1, jnp.where(growing, last, before), jnp.where(growing, following, last)

    start = jnp.int32(1), jnp.ones_like(x), first
    last = lax.while_loop(grows, grow, start)[2]
    return jnp.where(order < 0, 0, jnp.where(order == 0, 1, last))


# By kind: P(1) - 2 x; the value inside (-1, 1) from the order and the angle acos(x), for high
# orders; and what counts as high, plain and shifted.
_CHEBYSHEV = {
    "t": (None, lambda n, angle: jnp.cos(n * angle), 6, 6),
    "u": (0, lambda n, angle: jnp.sin((n + 1) * angle) / jnp.sin(angle), 8, 6),
    "v": (-1, lambda n, angle: jnp.cos((n + 0.5) * angle) / jnp.cos(angle / 2), 8, 6),
    "w": (1, lambda n, angle: jnp.sin((n + 0.5) * angle) / jnp.sin(angle / 2), 8, 4),
}


def _chebyshev(kind, shifted):
    constant, closed_form, *high = _CHEBYSHEV[kind]

    def rule(x, n):
        x, order = _operands(x, n)
        x = x + x - 1 if shifted else x
        first = x if constant is None else x + x + constant
        closed = (order > high[shifted]) & (jnp.abs(x) < 1)
        looped = _recurrence(
            first, lambda k, last, before: (x + x) * last - before, x, order, ~closed
        )
        return jnp.where(closed, closed_form(order.astype(x.dtype), jnp.arccos(x)), looped)

    return rule


for _kind in _CHEBYSHEV:
    _register(f"chebyshev_polynomial_{_kind}", _chebyshev(_kind, False))
    _register(f"shifted_chebyshev_polynomial_{_kind}", _chebyshev(_kind, True))


def _hermite(scale):
    def rule(x, n):
        x, order = _operands(x, n)
        # PyTorch gives up on orders whose values no longer fit.
        highest = 512 if x.dtype == jnp.float64 else 128
        first = scale * x
        value = _recurrence(
            first,
            lambda k, last, before: first * last - scale * k * before,
            x,
            jnp.minimum(order, highest),
        )
        return jnp.where(order > highest, jnp.nan, value)

    return rule


_register("hermite_polynomial_h", _hermite(2))
_register("hermite_polynomial_he", _hermite(1))


def special_laguerre_polynomial_l(x, n):
    x, order = _operands(x, n)
    return _recurrence(
        1 - x,
        lambda k, last, before: ((k + k + (1 - x)) * last - k * before) / (k + 1),
        x,
        order,
    )


def special_legendre_polynomial_p(x, n):
    x, order = _operands(x, n)
    return _recurrence(
        x, lambda k, last, before: ((k + k + 1) * x * last - k * before) / (k + 1), x, order
    )


_register("laguerre_polynomial_l", special_laguerre_polynomial_l)
_register("legendre_polynomial_p", special_legendre_polynomial_p)
