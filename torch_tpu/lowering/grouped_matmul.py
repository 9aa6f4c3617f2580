"""Matrix products by group: experts that take different numbers of rows."""

import jax.numpy as jnp
import torch
from jax import lax

from torch_tpu.lowering.matmul import accumulator_of, product
from torch_tpu.lowering.platforms import by_platform
from torch_tpu.lowering.registry import lowering

aten = torch.ops.aten


@lowering(aten._grouped_mm.default)
def _grouped_mm(self, mat2, offs=None, bias=None, out_dtype=None):
    """Products group by group; ``offs`` says where each group ends along the dim that is split."""
    if offs is None:
        return product(self, mat2)
    lengths = jnp.diff(offs, prepend=jnp.zeros(1, offs.dtype))
    return _PRODUCTS[self.ndim, mat2.ndim](self, mat2, lengths)


@lowering(aten._scaled_grouped_mm.default)
def _scaled_grouped_mm(
    self,
    mat2,
    scale_a,
    scale_b,
    offs=None,
    bias=None,
    scale_result=None,
    out_dtype=None,
    use_fast_accum=False,
):
    # Every float8 is exact in bfloat16, which all platforms multiply.
    result = _grouped_mm(self.astype(jnp.bfloat16), mat2.astype(jnp.bfloat16), offs)
    rows, columns = _SCALES[self.ndim, mat2.ndim](scale_a, scale_b, offs, result.shape)
    return result * rows * columns


def _ragged(lhs, rhs, lengths, dimensions):
    accumulator = accumulator_of(lhs.dtype)

    def dot(lhs, rhs, lengths):
        return lax.ragged_dot_general(
            lhs, rhs, lengths, dimensions, preferred_element_type=accumulator
        )

    def wide_dot(lhs, rhs, lengths):
        return dot(lhs.astype(accumulator), rhs.astype(accumulator), lengths)

    # XLA:CPU has no kernel for some of the products of narrow floats that this becomes there.
    return by_platform(lhs, rhs, lengths, cpu=wide_dot, default=dot)


_ROWS = lax.RaggedDotDimensionNumbers(
    dot_dimension_numbers=(((1,), (1,)), ((), ())),
    lhs_ragged_dimensions=[0],
    rhs_group_dimensions=[0],
)
_INNER = lax.RaggedDotDimensionNumbers(
    dot_dimension_numbers=(((1,), (0,)), ((), ())),
    lhs_ragged_dimensions=[1],
    rhs_group_dimensions=[],
)


def _split_rows(self, mat2, lengths):
    return _ragged(self, mat2, lengths, _ROWS)


def _split_columns(self, mat2, lengths):
    return _split_rows(mat2.mT, self.mT, lengths).mT


def _split_inner(self, mat2, lengths):
    return _ragged(self, mat2, lengths, _INNER)


_PRODUCTS = {(2, 3): _split_rows, (3, 2): _split_columns, (2, 2): _split_inner}


def _by_group(scales, offs, length):
    """Each group's row of scales for those of ``length`` places that are in the group."""
    group = jnp.sum(offs[:, None] <= lax.iota(offs.dtype, length), axis=0, dtype=jnp.int32)
    return jnp.take(scales, group, axis=0, mode="clip")


# What multiplies the rows and the columns of a result of the given shape.
_SCALES = {
    (2, 3): lambda a, b, offs, shape: (a[:, None], _by_group(b, offs, shape[0])),
    (3, 2): lambda a, b, offs, shape: (_by_group(a, offs, shape[1]).T, b),
    (2, 2): lambda a, b, offs, shape: (
        a.reshape(shape[0], shape[1], 1),
        b.reshape(shape[0], 1, shape[2]),
    ),
    (3, 3): lambda a, b, offs, shape: (a[:, :, None], b[:, None, :]),
}
