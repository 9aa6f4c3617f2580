"""Element-by-element arithmetic of two or three operands."""

import jax.numpy as jnp
import torch
from jax import lax

from torch_tpu.lowering.checks import check
from torch_tpu.lowering.promotion import cast, promote, result_type
from torch_tpu.lowering.registry import lowering

aten = torch.ops.aten


def _is_integer(x):
    return jnp.issubdtype(x.dtype, jnp.integer)


def _promote_divisor(self, other):
    """Both operands promoted; where they are integers, a divisor of zero is an error."""
    self, other = promote(self, other)
    if _is_integer(other) and self.size:  # nothing may be divided by zero
        check(other != 0, "ZeroDivisionError", RuntimeError)
    return self, other


@lowering(aten.add.Tensor, aten.add.Scalar)
def add(self, other, alpha=1):
    self, other = promote(self, other)
    return self + jnp.asarray(alpha).astype(other.dtype) * other  # an integer 1 also for bools


@lowering(aten.sub.Tensor, aten.sub.Scalar)
def sub(self, other, alpha=1):
    self, other, alpha = promote(self, other, alpha)
    return self - alpha * other


@lowering(aten.rsub.Tensor, aten.rsub.Scalar)
def rsub(self, other, alpha=1):
    return sub(other, self, alpha=alpha)


@lowering(aten.mul.Tensor, aten.mul.Scalar)
def mul(self, other):
    self, other = promote(self, other)
    return self * other


@lowering(aten.div.Tensor, aten.div.Scalar)
def div(self, other):
    self, other = promote(self, other, to_float=True)
    return self / other


@lowering(aten.div.Tensor_mode, aten.div.Scalar_mode)
def div_mode(self, other, *, rounding_mode):
    if rounding_mode is None:
        return div(self, other)
    return floor_divide(self, other) if rounding_mode == "floor" else _truncated(self, other)


def _truncated(self, other):
    self, other = jnp.broadcast_arrays(*_promote_divisor(self, other))
    return lax.div(self, other) if _is_integer(self) else jnp.trunc(self / other)


@lowering(aten.floor_divide.default, aten.floor_divide.Scalar)
def floor_divide(self, other):
    self, other = jnp.broadcast_arrays(*_promote_divisor(self, other))
    rest = lax.rem(self, other)
    crosses = (rest != 0) & ((rest < 0) != (other < 0))
    if _is_integer(self):
        quotient = lax.div(self, other)
        return jnp.where(crosses, quotient - 1, quotient)
    # self - rest is a multiple of other up to rounding, which the nearest integer undoes.
    quotient = (self - rest) / other - crosses.astype(self.dtype)
    nearest = jnp.floor(quotient)
    nearest = jnp.where(quotient - nearest > 0.5, nearest + 1, nearest)
    exact = self / other
    nearest = jnp.where(quotient == 0, jnp.copysign(0, exact), nearest)
    return jnp.where(other == 0, exact, nearest)


@lowering(aten.remainder.Tensor, aten.remainder.Scalar, aten.remainder.Scalar_Tensor)
def remainder(self, other):
    self, other = jnp.broadcast_arrays(*_promote_divisor(self, other))
    rest = lax.rem(self, other)
    return jnp.where((rest != 0) & ((rest < 0) != (other < 0)), rest + other, rest)


@lowering(aten.fmod.Tensor, aten.fmod.Scalar)
def fmod(self, other):
    return lax.rem(*jnp.broadcast_arrays(*_promote_divisor(self, other)))


def _integer_pow(base, exponent):
    """base ** exponent by squaring, modulo the dtype's range; 0 where the result is a fraction."""
    base, exponent = jnp.broadcast_arrays(base, exponent)
    odd = (exponent & 1) == 1

    def step(state):
        result, square, left = state
        result = jnp.where((left & 1) == 1, result * square, result)
        return result, square * square, left >> 1

    start = jnp.ones_like(base), base, jnp.maximum(exponent, 0)
    result = lax.while_loop(lambda state: jnp.any(state[2] > 0), step, start)[0]
    if jnp.issubdtype(base.dtype, jnp.unsignedinteger):
        return result
    fraction = jnp.where(jnp.abs(base) == 1, jnp.where(odd, base, 1), 0)
    return jnp.where(exponent < 0, fraction, result)


@lowering(aten.pow.Tensor_Tensor, aten.pow.Scalar)
def pow(self, exponent):
    self, exponent = promote(self, exponent)
    if self.dtype == bool:
        return self | ~exponent
    return _integer_pow(self, exponent) if _is_integer(self) else jnp.power(self, exponent)


_ROOTS = {0.5: jnp.sqrt, -0.5: lax.rsqrt}
_SMALL = {0, 1, 2, 3, 4, -1, -2}  # exponents that a few multiplications serve


@lowering(aten.pow.Tensor_Scalar, static=("exponent",))
def pow_scalar(self, exponent):
    # The exponent is static as it is nearly always a constant of the model, and a power of 2 or
    # 0.5 that XLA knows costs a multiplication or a root instead of a logarithm and an exponential.
    dtype = result_type(self, exponent)
    (base,) = promote(cast(self, dtype))
    is_float = jnp.issubdtype(base.dtype, jnp.floating)
    if exponent in _ROOTS and is_float:
        return _ROOTS[exponent](base)
    if exponent in _SMALL and (is_float or (exponent >= 0 and base.dtype != bool)):
        return lax.integer_pow(base, int(exponent))
    return pow(base, cast(exponent, dtype).astype(base.dtype))


@lowering(aten.atan2.default)
def atan2(self, other):
    return jnp.arctan2(*promote(self, other, to_float=True))


@lowering(aten.hypot.default)
def hypot(self, other):
    return jnp.hypot(*promote(self, other))


@lowering(aten.copysign.Tensor, aten.copysign.Scalar)
def copysign(self, other):
    return jnp.copysign(*promote(self, other, to_float=True))


@lowering(aten.nextafter.default)
def nextafter(self, other):
    # In the operands' own dtype: the neighbour in a wider one would round back to self.
    dtype = result_type(self, other)
    return lax.nextafter(*jnp.broadcast_arrays(cast(self, dtype), cast(other, dtype)))


@lowering(aten.heaviside.default)
def heaviside(self, values):
    self, values = promote(self, values)
    return jnp.where(self == 0, values, (self > 0).astype(self.dtype))


@lowering(aten.gcd.default)
def gcd(self, other):
    return jnp.gcd(*promote(self, other))


@lowering(aten.lcm.default)
def lcm(self, other):
    return jnp.lcm(*promote(self, other))


@lowering(aten.ldexp.Tensor)
def ldexp(self, other):
    self, other = promote(self, other, to_float=True)
    return self * jnp.exp2(other)


def log_add_exp(x, y):
    """log(exp(x) + exp(y)); of complex operands on the branch of the one with the larger real part.

    jnp.logaddexp wraps the imaginary part, PyTorch doesn't.
    """
    if not jnp.iscomplexobj(x):
        return jnp.logaddexp(x, y)
    swapped = y.real < x.real
    low, high = jnp.where(swapped, y, x), jnp.where(swapped, x, y)
    same = jnp.isinf(low.real) & (low.real == high.real)
    infinite = jnp.where(low.real < 0, low, jnp.log(jnp.exp(low) + jnp.exp(high)))
    return jnp.where(same, infinite, jnp.log1p(jnp.exp(low - high)) + high)


@lowering(aten.logaddexp.default)
def logaddexp(self, other):
    return log_add_exp(*promote(self, other))


@lowering(aten.logaddexp2.default)
def logaddexp2(self, other):
    return jnp.logaddexp2(*promote(self, other))


@lowering(aten.lerp.Tensor, aten.lerp.Scalar)
def lerp(self, end, weight):
    self, end, weight = promote(self, end, weight)
    # From the nearer end, so that weights of 0 and of 1 give the ends exactly.
    near = self + weight * (end - self)
    return jnp.where(jnp.abs(weight) < 0.5, near, end - (end - self) * (1 - weight))


@lowering(aten.addcmul.default)
def addcmul(self, tensor1, tensor2, value=1):
    self, tensor1, tensor2, value = promote(self, tensor1, tensor2, value)
    return self + value * tensor1 * tensor2


@lowering(aten.addcdiv.default)
def addcdiv(self, tensor1, tensor2, value=1):
    self, tensor1, tensor2, value = promote(self, tensor1, tensor2, value)
    return self + value * tensor1 / tensor2
