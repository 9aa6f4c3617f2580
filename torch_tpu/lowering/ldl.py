"""The LDL factorization of symmetric and Hermitian matrices, and solving with it.

Pivots are those of Bunch and Kaufman, in LAPACK's form: a positive one is the row that a block of
one row was swapped with, a negative one, given twice, that of the second row of a block of two.
"""

import functools

import jax
import jax.numpy as jnp
import torch
from jax import lax

from torch_tpu.lowering.checks import check
from torch_tpu.lowering.linalg_errors import check_info
from torch_tpu.lowering.registry import lowering

aten = torch.ops.aten

# Bounds the growth of elements over blocks of one and of two rows alike.
_ALPHA = (1 + 17**0.5) / 8

_NO_PIVOTS = (
    "Pivots given to ldl_solve must all satisfy |pivot| >= 1. Did you properly pass the result of "
    "ldl_factor?"
)


def _adjoint(matrix, hermitian):
    return jnp.conj(matrix).mT if hermitian else matrix.mT


def _size(value):
    """How large LAPACK finds an element."""
    if not jnp.iscomplexobj(value):
        return jnp.abs(value)
    return jnp.abs(value.real) + jnp.abs(value.imag)


def _largest(values, among):
    values = jnp.where(among, values, -1)
    place = jnp.argmax(values)
    return place, jnp.maximum(values[place], 0)


def _swapped(order, first, second):
    """A range with two of its numbers exchanged."""
    return jnp.where(order == first, second, jnp.where(order == second, first, order))


def _choose(matrix, place):
    """The pivot's row, whether its block has two rows, and whether its column is zero."""
    order = lax.iota(jnp.int32, matrix.shape[0])
    pivot = _size(matrix[place, place])
    row, column_max = _largest(_size(matrix[:, place]), order > place)
    _, row_max = _largest(_size(matrix[row]), (order >= place) & (order != row))
    singular = (jnp.maximum(pivot, column_max) == 0) | jnp.isnan(pivot)
    stays = singular | (pivot >= _ALPHA * column_max)
    stays |= pivot * row_max >= _ALPHA * column_max * column_max
    two = ~stays & ~(_size(matrix[row, row]) >= _ALPHA * row_max)
    return jnp.where(stays, place, row.astype(jnp.int32)), two, singular


def _times_inverse(first, second, block):
    """Columns times the inverse of a 2x2 block, scaled so that nothing overflows early."""
    (upper, across), (below, lower) = block
    upper, lower = upper / across, lower / below
    scale = 1 / (upper * lower - 1)
    return scale * (lower * first - second) / across, scale * (upper * second - first) / below


def _factor(matrix, hermitian):
    """One matrix: the factors in its lower triangle, the pivots and LAPACK's info."""
    count = matrix.shape[0]
    order = lax.iota(jnp.int32, count)
    conj = jnp.conj if hermitian else lambda x: x

    def eliminate(state):
        place, rest, factors, pivots, info = state
        pivot, two, singular = _choose(rest, place)
        swap = _swapped(order, jnp.where(two, place + 1, place), pivot)
        rest = rest[swap][:, swap]
        after = jnp.minimum(place + 1, count - 1)
        first, second = rest[:, place], rest[:, after]
        block = [[rest[i, j] for j in (place, after)] for i in (place, after)]
        pair = _times_inverse(first, second, block)
        single = first / jnp.where(singular, 1, first[place])
        below = order > jnp.where(two, after, place)
        left = jnp.where(below, jnp.where(two, pair[0], single), 0)
        right = jnp.where(below & two, pair[1], 0)
        moved = jnp.outer(left, conj(first)) + jnp.outer(right, conj(second))
        rest = rest - jnp.where(singular, 0, moved)
        column = jnp.where(below, jnp.where(singular, first, left), first)
        factors = jnp.where((order[:, None] >= place) & (order == place), column[:, None], factors)
        column = jnp.where(below, right, second)
        kept = two & (order[:, None] >= after) & (order == after)
        factors = jnp.where(kept, column[:, None], factors)
        here = (order == place) | two & (order == after)
        pivots = jnp.where(here, jnp.where(two, -(pivot + 1), pivot + 1), pivots)
        info = jnp.where((info == 0) & singular, place + 1, info)
        return place + 1 + two, rest, factors, pivots, info

    lower = jnp.tril(matrix, -1)
    diagonal = jnp.diagonal(matrix)
    diagonal = diagonal.real.astype(matrix.dtype) if hermitian else diagonal
    whole = lower + _adjoint(lower, hermitian) + jnp.diag(diagonal)
    start = jnp.int32(0), whole, jnp.tril(matrix), jnp.zeros(count, jnp.int32), jnp.int32(0)
    return lax.while_loop(lambda state: state[0] < count, eliminate, start)[2:]


@lowering(aten.linalg_ldl_factor_ex.default)
def linalg_ldl_factor_ex(self, *, hermitian=False, check_errors=False):
    batch, count = self.shape[:-2], self.shape[-1]
    if self.size == 0:
        return self, jnp.zeros((*batch, count), jnp.int32), jnp.zeros(batch, jnp.int32)
    factor = functools.partial(_factor, hermitian=hermitian and jnp.iscomplexobj(self))
    factors, pivots, info = jax.vmap(factor)(self.reshape(-1, count, count))
    info = info.reshape(batch)
    if check_errors:
        check_info(info, "torch.linalg.ldl_factor_ex")
    return factors.reshape(self.shape), pivots.reshape(*batch, count), info


def _parts(factors, pivots):
    """L with its rows where the pivots put them, their order, and which rows begin a block of two.

    LAPACK leaves a column of L as it was when later rows were swapped.
    """
    count = factors.shape[0]
    order = lax.iota(jnp.int32, count)

    def swap(place, state):
        lower, rows, begins, inside = state
        two = ~inside & (pivots[place] < 0)
        here = jnp.where(two, place + 1, place)
        row = jnp.where(inside, here, jnp.abs(pivots[place]) - 1)
        swap = _swapped(order, here, row)
        lower = jnp.where(order < place, lower[swap], lower)
        return lower, rows[swap], begins | two & (order == place), two

    start = jnp.tril(factors, -1), order, jnp.zeros(count, bool), jnp.bool_(False)
    lower, rows, begins, _ = lax.fori_loop(jnp.int32(0), jnp.int32(count), swap, start)
    inner = begins & (order == order[:, None] - 1)  # the element below the diagonal of a block
    return jnp.where(inner, 0, lower) + jnp.eye(count, dtype=factors.dtype), rows, begins


def _divided(values, factors, begins, hermitian):
    """The inverse of D, blocks of one and two rows, times values."""
    diagonal = jnp.diagonal(factors)
    diagonal = diagonal.real.astype(factors.dtype) if hermitian else diagonal
    below = jnp.where(begins, jnp.append(jnp.diagonal(factors, -1), 0), 1)
    across = jnp.conj(below) if hermitian else below
    upper, lower = diagonal / across, jnp.roll(diagonal, -1) / below
    scale = 1 / (upper * lower - 1)
    first, second = values / across[:, None], jnp.roll(values, -1, 0) / below[:, None]
    top = scale[:, None] * (lower[:, None] * first - second)
    bottom = jnp.roll(scale[:, None] * (upper[:, None] * second - first), 1, 0)
    single = values / diagonal[:, None]
    return jnp.where(begins[:, None], top, jnp.where(jnp.roll(begins, 1)[:, None], bottom, single))


def _solve(factors, pivots, values, hermitian):
    lower, rows, begins = _parts(factors, pivots)
    triangular = functools.partial(
        lax.linalg.triangular_solve, left_side=True, lower=True, unit_diagonal=True
    )
    values = _divided(triangular(lower, values[rows]), factors, begins, hermitian)
    values = triangular(lower, values, transpose_a=True, conjugate_a=hermitian)
    return jnp.zeros_like(values).at[rows].set(values)


@lowering(aten.linalg_ldl_solve.default)
def linalg_ldl_solve(LD, pivots, B, *, hermitian=False):
    check(pivots != 0, _NO_PIVOTS, RuntimeError)
    count, columns = B.shape[-2:]
    batch = jnp.broadcast_shapes(LD.shape[:-2], B.shape[:-2])
    if 0 in (*batch, count, columns):
        return jnp.zeros((*batch, count, columns), B.dtype)
    LD = jnp.broadcast_to(LD, (*batch, count, count)).reshape(-1, count, count)
    pivots = jnp.broadcast_to(pivots, (*batch, count)).reshape(-1, count)
    values = jnp.broadcast_to(B, (*batch, count, columns)).reshape(-1, count, columns)
    solve = functools.partial(_solve, hermitian=hermitian and jnp.iscomplexobj(LD))
    return jax.vmap(solve)(LD, pivots, values).reshape(*batch, count, columns)
