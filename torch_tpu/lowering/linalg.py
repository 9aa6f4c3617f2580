"""Linear systems, inverses, determinants and functions of matrices."""

import jax.numpy as jnp
import numpy as np
import torch
from jax import lax

from torch_tpu.lowering.linalg_errors import check_info, first_zero
from torch_tpu.lowering.linalg_factorizations import (
    adjoint,
    lu_factor,
    permutation,
    qr,
    singular_vectors,
)
from torch_tpu.lowering.promotion import promote
from torch_tpu.lowering.registry import lowering

aten = torch.ops.aten


def _broadcast_batch(*matrices):
    """Matrices with their batch dims broadcast against each other."""
    batch = jnp.broadcast_shapes(*(matrix.shape[:-2] for matrix in matrices))
    return (jnp.broadcast_to(matrix, (*batch, *matrix.shape[-2:])) for matrix in matrices)


def _is_vector(A, B):
    """Whether the right-hand side is a vector (or a batch of them), as PyTorch decides it."""
    return B.ndim == 1 or (A.ndim - 1 == B.ndim and B.shape == A.shape[:-1])


def _triangular(A, B, *, lower, left=True, conjugate_transpose=False, unit=False):
    """op(A) X = B, or X op(A) = B, where op takes the adjoint on demand."""
    A, B = _broadcast_batch(A, B)
    if B.size == 0:
        return B
    return lax.linalg.triangular_solve(
        A,
        B,
        left_side=left,
        lower=lower,
        transpose_a=conjugate_transpose,
        conjugate_a=conjugate_transpose,
        unit_diagonal=unit,
    )


@lowering(aten.linalg_solve_triangular.default)
def linalg_solve_triangular(self, B, *, upper, left=True, unitriangular=False):
    return _triangular(self, B, lower=not upper, left=left, unit=unitriangular)


@lowering(aten.triangular_solve.default)
def triangular_solve(self, A, upper=True, transpose=False, unitriangular=False):
    A, B = _broadcast_batch(A, self)
    # A transpose without conjugation: the triangle changes sides.
    matrix, lower = (A.mT, upper) if transpose else (A, not upper)
    return _triangular(matrix, B, lower=lower, unit=unitriangular), A


@lowering(aten.cholesky_solve.default, aten._cholesky_solve_helper.default)
def _cholesky_solve_helper(self, A, upper=False):
    half = _triangular(A, self, lower=not upper, conjugate_transpose=upper)
    return _triangular(A, half, lower=not upper, conjugate_transpose=not upper)


@lowering(aten.cholesky_inverse.default)
def cholesky_inverse(self, upper=False):
    check_info(first_zero(jnp.diagonal(self, axis1=-2, axis2=-1)), "cholesky_inverse")
    return _cholesky_solve_helper(jnp.eye(self.shape[-1], dtype=self.dtype), self, upper)


@lowering(aten.linalg_lu_solve.default)
def linalg_lu_solve(LU, pivots, B, *, left=True, adjoint=False):
    if not left:
        return _adjoint(linalg_lu_solve(LU, pivots, _adjoint(B), adjoint=not adjoint))
    rows = permutation(pivots, LU.shape[-1])
    if adjoint:
        half = _triangular(LU, B, lower=False, conjugate_transpose=True)
        solution = _triangular(LU, half, lower=True, conjugate_transpose=True, unit=True)
        return _take_rows(solution, jnp.argsort(rows, axis=-1))
    half = _triangular(LU, _take_rows(B, rows), lower=True, unit=True)
    return _triangular(LU, half, lower=False)


_adjoint = adjoint  # PyTorch gives an argument that name


def _take_rows(matrix, rows):
    batch = jnp.broadcast_shapes(matrix.shape[:-2], rows.shape[:-1])
    matrix = jnp.broadcast_to(matrix, (*batch, *matrix.shape[-2:]))
    rows = jnp.broadcast_to(rows, (*batch, rows.shape[-1]))
    return jnp.take_along_axis(matrix, rows[..., None], -2, mode="clip")


@lowering(aten._linalg_solve_ex.default)
def _linalg_solve_ex(A, B, *, left=True, check_errors=False):
    LU, pivots, info = lu_factor(A)
    if check_errors:
        check_info(info, "torch.linalg.solve_ex")
    if _is_vector(A, B):
        result = linalg_lu_solve(LU, pivots, B[..., None], left=left)[..., 0]
    else:
        result = linalg_lu_solve(LU, pivots, B, left=left)
    return result, LU, pivots, info


@lowering(aten.linalg_inv_ex.default)
def linalg_inv_ex(A, *, check_errors=False):
    LU, pivots, info = lu_factor(A)
    if check_errors:
        check_info(info, "linalg.inv_ex")
    return linalg_lu_solve(LU, pivots, jnp.eye(A.shape[-1], dtype=A.dtype)), info


def _factor_for_determinant(A, contiguous):
    """The factors that PyTorch keeps for backward.

    Its backward takes those of the transpose for granted where A is real and contiguous, and those
    of A elsewhere. The determinant is the same.
    """
    transposed = contiguous and not jnp.iscomplexobj(A)
    LU, pivots, _ = lu_factor(A.mT if transposed else A)
    diagonal = jnp.diagonal(LU, axis1=-2, axis2=-1)
    place = lax.broadcasted_iota(pivots.dtype, pivots.shape, pivots.ndim - 1) + 1
    odd = jnp.sum(pivots != place, axis=-1, dtype=jnp.int32) % 2
    return LU, pivots, diagonal, (1 - 2 * odd).astype(A.dtype)


@lowering(aten._linalg_det.default, layout_of="A")
def _linalg_det(A, *, contiguous=True):
    LU, pivots, diagonal, parity = _factor_for_determinant(A, contiguous)
    return parity * jnp.prod(diagonal, axis=-1), LU, pivots


@lowering(aten._linalg_slogdet.default, layout_of="A")
def _linalg_slogdet(A, *, contiguous=True):
    LU, pivots, diagonal, parity = _factor_for_determinant(A, contiguous)
    sign = parity * jnp.prod(jnp.sign(diagonal), axis=-1)
    return sign, jnp.sum(jnp.log(jnp.abs(diagonal)), axis=-1), LU, pivots


@lowering(aten.linalg_lstsq.default)
def linalg_lstsq(self, b, rcond=None, *, driver=None):
    vector = self.ndim - 1 == b.ndim and self.shape[:-1] == b.shape
    A, B = _broadcast_batch(self, b[..., None] if vector else b)
    rows, columns = A.shape[-2:]
    driver = driver or "gelsy"
    if rcond is None:
        rcond = float(jnp.finfo(A.dtype).eps) * max(rows, columns)
    empty = jnp.zeros(0, A.real.dtype)
    rank, singular_values = jnp.zeros(0, jnp.int64), empty
    if driver == "gels":
        solution = _full_rank_least_squares(A, B)
    else:
        solution, rank, singular_values = _least_squares(A, B, rcond)
    residuals = empty
    if rows > columns and driver != "gelsy":
        residuals = jnp.sum(jnp.abs(A @ solution - B) ** 2, axis=-2)
    if driver == "gelsy":
        singular_values = empty
    return (solution[..., 0] if vector else solution), residuals, rank, singular_values


def _full_rank_least_squares(A, B):
    """By QR; where there are fewer rows than columns, the smallest solution."""
    if A.shape[-2] >= A.shape[-1]:
        Q, R = qr(A)
        return _triangular(R, adjoint(Q) @ B, lower=False)
    Q, R = qr(adjoint(A))
    return Q @ _triangular(R, B, lower=False, conjugate_transpose=True)


def _least_squares(A, B, rcond):
    """The smallest solution, the rank and the singular values."""
    U, S, Vh = singular_vectors(A, full_matrices=False)
    kept = S[..., :1] * jnp.asarray(rcond, S.dtype) < S
    inverse = jnp.where(kept, 1 / jnp.where(kept, S, 1), 0)
    solution = adjoint(Vh) @ (inverse[..., None] * (adjoint(U) @ B))
    return solution, jnp.sum(kept, axis=-1, dtype=jnp.int64), S


# Terms of the Taylor polynomial, and the binary exponent of the norm up to which what is left out
# is below the dtype's rounding. Each halving less doubles the accuracy.
_TAYLOR_TERMS = 16
_LARGEST_EXPONENT = {4: 1, 8: -1}  # by bytes of the real dtype


@lowering(aten.linalg_matrix_exp.default)
def linalg_matrix_exp(self):
    """Scaling and squaring of a Taylor polynomial, which needs products of matrices only."""
    if self.size == 0:
        return self
    (self,) = promote(self)
    norm = jnp.max(jnp.sum(jnp.abs(self), axis=-2), axis=-1)
    _, exponent = jnp.frexp(norm)
    halvings = jnp.maximum(exponent - _LARGEST_EXPONENT[norm.dtype.itemsize], 0)
    squarings = jnp.where(jnp.isfinite(norm), halvings, 0)
    scale = jnp.ldexp(jnp.ones_like(norm), -squarings)[..., None, None]
    result = _exponential_polynomial(self * scale.astype(self.dtype))

    def square(state):
        result, done = state
        wanted = (done < squarings)[..., None, None]
        return jnp.where(wanted, result @ result, result), done + 1

    most = jnp.max(squarings)
    return lax.while_loop(lambda state: state[1] < most, square, (result, jnp.int32(0)))[0]


def _exponential_polynomial(A):
    """The Taylor polynomial by Paterson and Stockmeyer: 6 products for 16 terms."""
    eye = jnp.eye(A.shape[-1], dtype=A.dtype)
    square = A @ A
    powers = (eye, A, square, square @ A)
    fourth = square @ square
    coefficients = 1 / np.cumprod([1.0, *range(1, _TAYLOR_TERMS)])
    result = jnp.zeros_like(A)
    for start in reversed(range(0, _TAYLOR_TERMS, 4)):
        block = sum(
            power * coefficients[start + place].astype(A.dtype)
            for place, power in enumerate(powers)
        )
        result = block if start == _TAYLOR_TERMS - 4 else fourth @ result + block
    return result
