"""Matrices whose rows are several dynamic dimensions merged: products and sums without the merge.

PyTorch's linear layers merge the dimensions of a batch to rows, multiply, and split them again.
With dynamic sizes a merge gathers elements; here the arrays that were merged are multiplied
instead, and a gather whose result nobody reads is no part of the program.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import torch

from torch_tpu.lowering import reductions, sizes
from torch_tpu.lowering.matmul import accumulate, contract

aten = torch.ops.aten

Array = Any


def _split_rows(matrix: Array) -> Array | None:
    """What (rows, columns) were merged from: (..., columns)."""
    origin = sizes.origin_of(matrix) if matrix.ndim == 2 else None
    return origin if _ends(origin, matrix, -1) else None


def _split_columns(matrix: Array) -> Array | None:
    """What (rows, columns) were merged from: (rows, ...)."""
    origin = sizes.origin_of(matrix) if matrix.ndim == 2 else None
    return origin if _ends(origin, matrix, 0) else None


def _ends(origin: Array | None, matrix: Array, dim: int) -> bool:
    if origin is None or origin.ndim < 3:
        return False
    return sizes.same((sizes.sizes_of(origin)[dim],), (sizes.sizes_of(matrix)[dim],))


def transposed_origin(matrix: Array) -> Array | None:
    """The origin of a transposed matrix."""
    rows, columns = _split_rows(matrix), _split_columns(matrix)
    if rows is not None:
        return _moved(rows, -1, 0)
    return None if columns is None else _moved(columns, 0, -1)


def _moved(array: Array, source: int, target: int) -> Array:
    order = list(range(array.ndim))
    order.insert(target % array.ndim, order.pop(source))
    return sizes.transposed(array, order)


def mm(self: Array, mat2: Array) -> Array:
    rows, left, right = _split_rows(self), _split_columns(self), _split_rows(mat2)
    own, others = sizes.sizes_of(self), sizes.sizes_of(mat2)
    if rows is not None:
        result = contract(rows, mat2, ((rows.ndim - 1,), (0,)))
        result = sizes.sized(result, (*sizes.sizes_of(rows)[:-1], others[1]))
        return sizes.reshape(result, (own[0], others[1]))
    if left is not None and right is not None:
        summed = sizes.sizes_of(left)[1:], sizes.sizes_of(right)[:-1]
        if sizes.same(*summed):
            dims = tuple(range(1, left.ndim)), tuple(range(right.ndim - 1))
            return sizes.sized(contract(left, right, dims), (own[0], others[1]))
    return sizes.sized(contract(self, mat2, ((1,), (0,))), (own[0], others[1]))


def addmm(self: Array, mat1: Array, mat2: Array, *, beta: Any = 1, alpha: Any = 1) -> Array:
    product = mm(mat1, mat2)
    origin = _split_rows(product)
    is_row = self.ndim == 1 or self.shape[0] == 1
    if origin is None or not is_row:
        return sizes.like(accumulate(self, product, beta, alpha), product)
    result = accumulate(self.reshape(-1), origin, beta, alpha)
    return sizes.reshape(sizes.like(result, origin), sizes.sizes_of(product))


def sum_dims(self: Array, dim: Any, keepdim: bool = False, *, dtype: Any = None) -> Array:
    origin = _split_rows(self)
    if origin is None or reductions.axes(self, dim) != (0,):
        return reductions.sum(sizes.filled(self, 0), dim, keepdim, dtype=dtype)
    leading = list(range(origin.ndim - 1))
    total = reductions.sum(sizes.filled(origin, 0), leading, dtype=dtype)
    return jnp.expand_dims(total, 0) if keepdim else total


# Instead of the rules.
FORMS = {aten.mm.default: mm, aten.addmm.default: addmm, aten.sum.dim_IntList: sum_dims}
