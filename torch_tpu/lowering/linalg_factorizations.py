"""Factorizations of matrices: Cholesky, LU, QR, eigenvalues and singular values."""

import jax
import jax.numpy as jnp
import torch
from jax import lax
from jax._src.tpu.linalg import svd as tpu_svd

from torch_tpu.lowering.checks import check
from torch_tpu.lowering.linalg_errors import NON_FINITE, check_info, first_zero, refuse
from torch_tpu.lowering.platforms import by_platform
from torch_tpu.lowering.registry import lowering

aten = torch.ops.aten


def adjoint(matrix):
    """The conjugate transpose."""
    return jnp.conj(matrix.mT)


def _failing_order(matrix):
    """The order of the first leading minor that is not positive, 0 where all are."""
    strict = jnp.tril(matrix, -1)
    matrix = jnp.tril(matrix) + adjoint(strict)

    def eliminate(place, state):
        matrix, order = state
        column = lax.dynamic_index_in_dim(matrix, place, -1, keepdims=False)
        pivot = lax.dynamic_index_in_dim(column, place, -1).real
        failed = (order == 0) & ~(pivot[..., 0] > 0)
        column = column / jnp.sqrt(pivot)
        matrix = matrix - column[..., :, None] * jnp.conj(column)[..., None, :]
        return matrix, jnp.where(failed, place + 1, order)

    order = jnp.zeros(matrix.shape[:-2], jnp.int32)
    return lax.fori_loop(jnp.int32(0), jnp.int32(matrix.shape[-1]), eliminate, (matrix, order))[1]


def _cholesky(self, upper):
    """The factor and LAPACK's info, which is worked out only where the factorization fails."""
    if self.size == 0:
        return self, jnp.zeros(self.shape[:-2], jnp.int32)
    lower = adjoint(self) if upper else self
    factor = lax.linalg.cholesky(lower, symmetrize_input=False)
    failed = jnp.any(jnp.isnan(jnp.diagonal(factor, axis1=-2, axis2=-1)), axis=-1)
    order = lax.cond(
        jnp.any(failed), _failing_order, lambda x: jnp.zeros(x.shape[:-2], jnp.int32), lower
    )
    # Where rounding divides the two, the last minor is blamed.
    info = jnp.where(failed, jnp.where(order == 0, self.shape[-1], order), 0)
    factor = jnp.tril(factor)
    return adjoint(factor) if upper else factor, info


@lowering(aten.linalg_cholesky_ex.default)
def linalg_cholesky_ex(self, *, upper=False, check_errors=False):
    factor, info = _cholesky(self, upper)
    if check_errors:
        check_info(info, "linalg.cholesky_ex")
    return factor, info


@lowering(aten.cholesky.default)
def cholesky(self, upper=False):
    factor, info = _cholesky(self, upper)
    check_info(info, "cholesky")
    return factor


def lu_factor(A):
    """Both factors in one matrix, the 1-based pivots and LAPACK's info."""
    if A.size == 0:
        pivots = lax.broadcasted_iota(jnp.int32, (*A.shape[:-2], min(A.shape[-2:])), A.ndim - 2)
        return A, pivots + 1, jnp.zeros(A.shape[:-2], jnp.int32)
    LU, pivots, _ = lax.linalg.lu(A)
    return LU, pivots + 1, first_zero(jnp.diagonal(LU, axis1=-2, axis2=-1))


def permutation(pivots, rows):
    """For each row of the factors, the row of the matrix that it came from."""
    if pivots.size == 0:
        return lax.broadcasted_iota(jnp.int32, (*pivots.shape[:-1], rows), pivots.ndim - 1)
    return lax.linalg.lu_pivots_to_permutation(pivots - 1, rows)


@lowering(aten.linalg_lu_factor_ex.default)
def linalg_lu_factor_ex(A, *, pivot=True, check_errors=False):
    LU, pivots, info = lu_factor(A)
    if check_errors:
        check_info(info, "torch.linalg.lu_factor_ex")
    return LU, pivots, info


@lowering(aten.lu_unpack.default)
def lu_unpack(LU_data, LU_pivots, unpack_data=True, unpack_pivots=True):
    rows, columns = LU_data.shape[-2:]
    empty = jnp.zeros(0, LU_data.dtype)
    P = L = U = empty
    if unpack_data:
        inner = min(rows, columns)
        L = jnp.tril(LU_data[..., :inner], -1) + jnp.eye(rows, inner, dtype=LU_data.dtype)
        U = jnp.triu(LU_data[..., :inner, :])
    if unpack_pivots:
        row = lax.broadcasted_iota(jnp.int32, (rows, rows), 0)
        P = (permutation(LU_pivots, rows)[..., None, :] == row).astype(LU_data.dtype)
    return P, L, U


@lowering(aten.linalg_lu.default)
def linalg_lu(A, *, pivot=True):
    LU, pivots, _ = lu_factor(A)
    return lu_unpack(LU, pivots)


def qr(A, full_matrices=False):
    """Q and R as LAPACK signs them."""
    if A.size == 0:
        inner = A.shape[-2] if full_matrices else min(A.shape[-2:])
        eye = jnp.eye(A.shape[-2], inner, dtype=A.dtype)
        Q = jnp.broadcast_to(eye, (*A.shape[:-2], *eye.shape))
        return Q, jnp.zeros((*A.shape[:-2], inner, A.shape[-1]), A.dtype)
    return lax.linalg.qr(A, full_matrices=full_matrices)


@lowering(aten.linalg_qr.default)
def linalg_qr(A, mode="reduced"):
    Q, R = qr(A, mode == "complete")
    return (jnp.zeros(0, A.dtype) if mode == "r" else Q), R


@lowering(aten.geqrf.default)
def geqrf(self):
    if self.size == 0:
        return self, jnp.zeros((*self.shape[:-2], min(self.shape[-2:])), self.dtype)
    transposed, tau = jnp.linalg.qr(self, mode="raw")
    return transposed.mT, tau


@lowering(aten.linalg_householder_product.default)
def linalg_householder_product(input, tau):
    if input.size == 0 or tau.size == 0:
        return jnp.broadcast_to(jnp.eye(*input.shape[-2:], dtype=input.dtype), input.shape)
    return lax.linalg.householder_product(input, tau)


@lowering(aten.ormqr.default)
def ormqr(self, input2, input3, left=True, transpose=False):
    if input3.size == 0 or input2.size == 0:
        return input3
    rows = self.shape[-2]
    # The whole of Q, which further reflectors of no effect fill up.
    reflectors = jnp.zeros((*self.shape[:-1], rows), self.dtype).at[..., : self.shape[-1]].set(self)
    Q = lax.linalg.householder_product(reflectors, input2)
    Q = adjoint(Q) if transpose else Q
    return Q @ input3 if left else input3 @ Q


@lowering(aten._linalg_eigh.default)
def _linalg_eigh(A, UPLO="L", compute_v=True):
    if A.size == 0:
        values = jnp.zeros(A.shape[:-1], A.real.dtype)
        return values, A if compute_v else jnp.zeros(0, A.dtype)
    vectors, values = lax.linalg.eigh(A, lower=UPLO.upper() == "L", symmetrize_input=False)
    return values, vectors if compute_v else jnp.zeros(0, A.dtype)


def _refuse_non_finite(A, api_name):
    check(
        jnp.isfinite(A), f"{api_name}: input tensor should not contain infs or NaNs.", RuntimeError
    )


# XLA knows the eigenvalues of a general matrix through LAPACK and cuSOLVER.
@lowering(aten.linalg_eig.default, absent_on=("tpu",))
def linalg_eig(self):
    dtype = jnp.result_type(self.dtype, jnp.complex64)
    if self.size == 0:
        return jnp.zeros(self.shape[:-1], dtype), self.astype(dtype)
    _refuse_non_finite(self, "torch.linalg.eig")
    values, vectors = lax.linalg.eig(self, compute_left_eigenvectors=False)
    return values, vectors


@lowering(aten._linalg_eigvals.default, aten.linalg_eigvals.default, absent_on=("tpu",))
def _linalg_eigvals(self):
    if self.size == 0:
        return jnp.zeros(self.shape[:-1], jnp.result_type(self.dtype, jnp.complex64))
    return lax.linalg.eig(self, compute_left_eigenvectors=False, compute_right_eigenvectors=False)[
        0
    ]


def _empty_svd(A, full_matrices):
    """The factors of a matrix without rows, columns or (a batch) matrices."""
    rows, columns = A.shape[-2:]
    batch, inner = A.shape[:-2], min(A.shape[-2:])
    U = jnp.eye(rows, rows if full_matrices else inner, dtype=A.dtype)
    Vh = jnp.eye(columns if full_matrices else inner, columns, dtype=A.dtype)
    S = jnp.zeros((*batch, inner), A.real.dtype)
    return jnp.broadcast_to(U, (*batch, *U.shape)), S, jnp.broadcast_to(Vh, (*batch, *Vh.shape))


def singular_vectors(A, full_matrices):
    """U, S and Vh.

    JAX's algorithm for TPUs multiplies by signs in the default integer type, and libtpu has no
    product of int64: there it is traced without 64-bit types.
    """

    def default(A):
        return tuple(lax.linalg.svd(A, full_matrices=full_matrices))

    def polar(A):
        with jax.enable_x64(False):
            S, U, Vh = tpu_svd._svd_tpu(
                A, full_matrices=full_matrices, compute_uv=True, subset_by_index=None
            )
        return U, S, Vh

    return by_platform(A, default=default, tpu=polar if A.dtype == jnp.float32 else default)


@lowering(aten._linalg_svd.default)
def _linalg_svd(A, full_matrices=False, compute_uv=True, *, driver=None):
    refuse(~jnp.all(jnp.isfinite(A), axis=(-2, -1)), NON_FINITE, "linalg.svd")
    empty = jnp.zeros(0, A.dtype)
    if A.size == 0:
        U, S, Vh = _empty_svd(A, full_matrices)
        return (U, S, Vh) if compute_uv else (empty, S, empty)
    if compute_uv:
        return singular_vectors(A, full_matrices)
    return empty, lax.linalg.svd(A, compute_uv=False), empty
