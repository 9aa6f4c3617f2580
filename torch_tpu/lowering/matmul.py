"""Matrix products, plain, accumulating and quantised."""

import math

import jax.numpy as jnp
import torch
from jax import lax

from torch_tpu.lowering import dtypes, sizes
from torch_tpu.lowering.platforms import by_platform
from torch_tpu.lowering.promotion import cast
from torch_tpu.lowering.registry import lowering

aten = torch.ops.aten


def contract(lhs, rhs, contracting, batch=((), ())):
    """lax.dot_general, accumulated in the dtype that PyTorch computes in.

    Narrow floats accumulate in float32, narrow integers in int32 (what is kept of a sum are its
    low bits). TPUs have no 64-bit integer products of matrices: there XLA fuses the multiplication
    into the sum.
    """
    accumulator = accumulator_of(lhs.dtype)
    lhs, rhs = sizes.filled(lhs, 0, contracting[0]), sizes.filled(rhs, 0, contracting[1])

    def dot(lhs, rhs):
        return lax.dot_general(lhs, rhs, (contracting, batch), preferred_element_type=accumulator)

    def multiply_and_sum(lhs, rhs):
        lhs, kept = _batch_kept_summed(lhs, contracting[0], batch[0])
        rhs, others = _batch_kept_summed(rhs, contracting[1], batch[1])
        lead = len(batch[0])
        lhs = jnp.expand_dims(lhs, tuple(range(lead + kept, lead + kept + others)))
        rhs = jnp.expand_dims(rhs, tuple(range(lead, lead + kept)))
        summed = tuple(range(lead + kept + others, lhs.ndim))
        return jnp.sum(lhs * rhs, summed, dtype=accumulator)

    if accumulator.itemsize == 8 and jnp.issubdtype(accumulator, jnp.integer):
        return by_platform(lhs, rhs, tpu=multiply_and_sum, default=dot)
    return dot(lhs, rhs)


def accumulator_of(dtype):
    if jnp.issubdtype(dtype, jnp.integer) and jnp.dtype(dtype).itemsize < 4:
        return jnp.dtype(jnp.int32)
    return dtypes.to_jax(dtypes.opmath(dtypes.to_torch(dtype)))


def _batch_kept_summed(operand, contracting, batch):
    """The operand with its axes in that order, and how many are kept."""
    kept = [axis for axis in range(operand.ndim) if axis not in (*contracting, *batch)]
    return operand.transpose((*batch, *kept, *contracting)), len(kept)


def product(lhs, rhs, contiguous=True):
    """A matrix product over any leading batch dimensions, the same on both sides.

    ``contiguous`` tells how ``rhs`` lies in memory. A transposed one (the weight of a linear
    layer) is contracted as it lies: XLA:CPU does not see through the transpose where ``lhs`` has
    one row, and takes five times as long.
    """
    batch = tuple(range(lhs.ndim - 2))
    if contiguous:
        return contract(lhs, rhs, ((lhs.ndim - 1,), (rhs.ndim - 2,)), (batch, batch))
    rhs = sizes.filled(rhs, 0, (rhs.ndim - 2,))
    return contract(lhs, rhs.mT, ((lhs.ndim - 1,), (rhs.ndim - 1,)), (batch, batch))


def accumulate(self, addend, beta, alpha):
    """beta * self + alpha * addend; where beta is 0, ``self`` may hold anything, NaN included."""
    alpha, beta = (lax.convert_element_type(factor, addend.dtype) for factor in (alpha, beta))
    scaled = jnp.where(beta == 0, jnp.zeros((), addend.dtype), beta * self.astype(addend.dtype))
    return scaled + alpha * addend


@lowering(aten.mm.default, aten.bmm.default, layout_of="mat2")
def mm(self, mat2, *, contiguous=True):
    return product(self, mat2, contiguous)


@lowering(aten.mm.dtype, aten.bmm.dtype)
def mm_dtype(self, mat2, out_dtype):
    return product(self, mat2)


@lowering(aten.addmm.default, layout_of="mat2")
def addmm(self, mat1, mat2, *, beta=1, alpha=1, contiguous=True):
    return accumulate(self, product(mat1, mat2, contiguous), beta, alpha)


@lowering(aten.baddbmm.default, layout_of="batch2")
def baddbmm(self, batch1, batch2, *, beta=1, alpha=1, contiguous=True):
    return addmm(self, batch1, batch2, beta=beta, alpha=alpha, contiguous=contiguous)


@lowering(aten.addmm.dtype, aten.baddbmm.dtype)
def addmm_dtype(self, mat1, mat2, out_dtype, *, beta=1, alpha=1):
    return accumulate(self, product(mat1, mat2), beta, alpha)


@lowering(aten._addmm_activation.default)
def _addmm_activation(self, mat1, mat2, *, beta=1, alpha=1, use_gelu=False):
    result = addmm(self, mat1, mat2, beta=beta, alpha=alpha)
    if not use_gelu:
        return jnp.maximum(result, 0)
    return result * 0.5 * (1 + lax.erf(result * 0.5**0.5))


@lowering(aten.addbmm.default)
def addbmm(self, batch1, batch2, *, beta=1, alpha=1):
    return accumulate(self, contract(batch1, batch2, ((0, 2), (0, 1))), beta, alpha)


@lowering(aten.mv.default)
def mv(self, vec):
    return contract(self, vec, ((1,), (0,)))


@lowering(aten.addmv.default)
def addmv(self, mat, vec, *, beta=1, alpha=1):
    return accumulate(self, mv(mat, vec), beta, alpha)


@lowering(aten.addr.default)
def addr(self, vec1, vec2, *, beta=1, alpha=1):
    if self.dtype == vec1.dtype == vec2.dtype == jnp.bool_:
        return (beta != 0) & self | (alpha != 0) & vec1[:, None] & vec2
    dtype = accumulator_of(jnp.result_type(self.dtype, vec1.dtype, vec2.dtype))
    return accumulate(self, vec1.astype(dtype)[:, None] * vec2.astype(dtype), beta, alpha)


@lowering(aten.dot.default)
def dot(self, tensor):
    return contract(self, tensor, ((0,), (0,)))


@lowering(aten.vdot.default)
def vdot(self, other):
    return dot(jnp.conj(self), other)


@lowering(aten._trilinear.default)
def _trilinear(i1, i2, i3, expand1, expand2, expand3, sumdim, unroll_dim=1):
    rank, given = i1.ndim + len(expand1), ((i1, expand1), (i2, expand2), (i3, expand3))
    if not jnp.issubdtype(i1.dtype, jnp.inexact):  # see contract: not every platform has a product
        widened = [jnp.expand_dims(operand, tuple(expand)) for operand, expand in given]
        return jnp.sum(math.prod(widened), axis=tuple(sumdim), dtype=i1.dtype)
    operands = []
    for operand, expand in given:
        operands += [cast(operand, _opmath(operand)), [d for d in range(rank) if d not in expand]]
    # Dims that every operand expands have size one.
    shared = set(expand1) & set(expand2) & set(expand3)
    kept = [d for d in range(rank) if d not in sumdim]
    result = jnp.einsum(*operands, [d for d in kept if d not in shared])
    return jnp.expand_dims(result, [place for place, d in enumerate(kept) if d in shared])


def _opmath(operand):
    return dtypes.opmath(dtypes.to_torch(operand.dtype))


@lowering(aten._compute_linear_combination.default)
def _compute_linear_combination(input, coefficients):
    return contract(coefficients, input, ((1,), (0,)))


@lowering(aten._int_mm.default)
def _int_mm(self, mat2):
    return lax.dot(self, mat2, preferred_element_type=jnp.int32)


@lowering(aten._weight_int8pack_mm.default)
def _weight_int8pack_mm(self, mat2, scales):
    # int8 is exact in bfloat16 and float16 too, so the product stays a narrow one.
    result = contract(self, mat2.astype(self.dtype), ((1,), (1,)))
    return result * scales.astype(result.dtype)


@lowering(aten._scaled_mm.default)
def _scaled_mm(
    self,
    mat2,
    scale_a,
    scale_b,
    bias=None,
    scale_result=None,
    out_dtype=None,
    use_fast_accum=False,
):
    # Every float8 is exact in bfloat16, which all platforms multiply.
    result = product(self.astype(jnp.bfloat16), mat2.astype(jnp.bfloat16))
    result = result * scale_a * scale_b  # one number each, or a column and a row
    if bias is not None:
        result = result + bias
    if scale_result is not None and out_dtype is not None and out_dtype.itemsize == 1:
        result = result / scale_result  # CPU PyTorch divides
    return result


@lowering(aten._scaled_mm_v2.default)
def _scaled_mm_v2(
    self,
    mat2,
    scale_a,
    recipe_a,
    swizzle_a,
    scale_b,
    recipe_b,
    swizzle_b,
    bias,
    out_dtype,
    contraction_dim=(),
    use_fast_accum=False,
):
    # PyTorch refuses recipes other than one number each, or a column and a row, on the CPU.
    return _scaled_mm(self, mat2, *scale_a, *scale_b, bias, None, out_dtype)
