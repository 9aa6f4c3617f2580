"""Element-by-element comparison, logic and bit arithmetic."""

import operator

import jax.numpy as jnp
import torch
from jax import lax

from torch_tpu.lowering.promotion import cast, promote, result_type
from torch_tpu.lowering.registry import lowering

aten = torch.ops.aten


def _compared(function):
    """A comparison in the operands' common dtype, unwidened: bfloat16(0.1) == 0.1 is true."""

    def rule(self, other):
        dtype = result_type(self, other)
        return function(cast(self, dtype), cast(other, dtype))

    return rule


for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    _packet = getattr(aten, _name)
    lowering(_packet.Tensor, _packet.Scalar)(_compared(getattr(operator, _name)))


def _is_true(x):
    return jnp.asarray(x) != 0


def _logical(function):
    return lambda self, other: function(_is_true(self), _is_true(other))


for _name, _function in {
    "logical_and": operator.and_,
    "logical_or": operator.or_,
    "logical_xor": operator.xor,
}.items():
    lowering(getattr(aten, _name).default)(_logical(_function))


@lowering(aten.logical_not.default)
def logical_not(self):
    return self == 0


def _bitwise(function):
    return lambda self, other: function(*promote(self, other))


for _name, _function in {
    "bitwise_and": operator.and_,
    "bitwise_or": operator.or_,
    "bitwise_xor": operator.xor,
}.items():
    _packet = getattr(aten, _name)
    lowering(_packet.Tensor, _packet.Scalar, _packet.Scalar_Tensor)(_bitwise(_function))


@lowering(aten.bitwise_not.default)
def bitwise_not(self):
    return ~self


def _shift_operands(self, other):
    """Promoted operands, and where the shift is by no bit position of the dtype."""
    self, other = jnp.broadcast_arrays(*promote(self, other))
    bits = jnp.iinfo(self.dtype).bits
    return self, other, (other < 0) | (other >= bits)


@lowering(
    aten.bitwise_left_shift.Tensor,
    aten.bitwise_left_shift.Tensor_Scalar,
    aten.bitwise_left_shift.Scalar_Tensor,
    aten.__lshift__.Tensor,
    aten.__lshift__.Scalar,
)
def bitwise_left_shift(self, other):
    self, other, outside = _shift_operands(self, other)
    return jnp.where(outside, 0, lax.shift_left(self, other))


@lowering(
    aten.bitwise_right_shift.Tensor,
    aten.bitwise_right_shift.Tensor_Scalar,
    aten.bitwise_right_shift.Scalar_Tensor,
    aten.__rshift__.Tensor,
    aten.__rshift__.Scalar,
)
def bitwise_right_shift(self, other):
    self, other, outside = _shift_operands(self, other)
    if jnp.issubdtype(self.dtype, jnp.unsignedinteger):
        return jnp.where(outside, 0, lax.shift_right_logical(self, other))
    furthest = jnp.asarray(jnp.iinfo(self.dtype).bits - 1, self.dtype)
    return lax.shift_right_arithmetic(self, jnp.where(outside, furthest, other))
