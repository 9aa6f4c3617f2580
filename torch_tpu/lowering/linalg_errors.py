"""What linear algebra refuses by value: a factorization that failed, a matrix that is singular."""

import itertools

import jax.numpy as jnp
import torch

from torch_tpu.lowering.checks import check
from torch_tpu.lowering.registry import lowering

# By what the name of the API contains, the first that fits, as PyTorch looks it up.
_REASONS = {
    "inv": (
        "The diagonal element {info} is zero, the inversion could not be completed because the "
        "input matrix is singular."
    ),
    "solve": "The solver failed because the input matrix is singular.",
    "cholesky": (
        "The factorization could not be completed because the input is not positive-definite "
        "(the leading minor of order {info} is not positive-definite)."
    ),
    "eig": (
        "The algorithm failed to converge because the input matrix is ill-conditioned or has too "
        "many repeated eigenvalues (error code: {info})."
    ),
    "svd": (
        "The algorithm failed to converge because the input matrix is ill-conditioned or has too "
        "many repeated singular values (error code: {info})."
    ),
    "lstsq": (
        "The least squares solution could not be computed because the input matrix does not have "
        "full rank (error code: {info})."
    ),
    "lu_factor": (
        "U[{info},{info}] is zero and using it on lu_solve would result in a division by zero. If "
        "you still want to perform the factorization, consider calling linalg.lu(A, pivot) or "
        "linalg.lu_factor_ex(A, pivot)"
    ),
}
NON_FINITE = (
    "The algorithm failed to converge because the input matrix contained non-finite values."
)

# A program says which of its checks failed and no more, so each message needs a check of its own.
# Failures beyond these get the message with the number left out.
_NAMED_ELEMENTS = 8
_MESSAGES = 32


def refuse(failed, reason, api_name, info=None, error=torch.linalg.LinAlgError):
    """Raise where any of ``failed`` holds, for the first matrix of the batch where it does."""
    batched = failed.ndim > 0
    failed = failed.reshape(-1)
    if failed.size == 0:
        return
    first = jnp.argmax(failed)
    elements = min(failed.size, _NAMED_ELEMENTS)
    numbers = range(1, 1 + _MESSAGES // elements) if "{info}" in reason else [None]
    for element, number in itertools.product(range(elements), numbers):
        case = failed[element] & (first == element)
        if number is not None:
            case &= info.reshape(-1)[element] == number
        place = f": (Batch element {element})" if batched else ""
        check(~case, f"{api_name}{place}: {reason.format(info=number)}", error)
    check(~failed, f"{api_name}: {reason.format(info='n')}", error)


@lowering(torch.ops.aten._linalg_check_errors.default)
def _linalg_check_errors(info, api_name, *, is_matrix):
    if "svd" in api_name:
        refuse(info < 0, NON_FINITE, api_name)
        info = jnp.maximum(info, 0)
    name = next((name for name in _REASONS if name in api_name), None)
    reason = _REASONS.get(name, "Unknown error code: {info}.")
    known = torch.linalg.LinAlgError if name not in (None, "lu_factor") else RuntimeError
    refuse(info != 0, reason, api_name, info, known)


def first_zero(diagonal):
    """LAPACK's info of a triangular matrix: the 1-based place of the first zero, 0 for none."""
    if diagonal.shape[-1] == 0:
        return jnp.zeros(diagonal.shape[:-1], jnp.int32)
    zero = diagonal == 0
    place = jnp.argmax(zero, axis=-1).astype(jnp.int32) + 1
    return jnp.where(jnp.any(zero, axis=-1), place, 0)


def check_info(info, api_name):
    """What linalg._ex ops do where ``check_errors`` is set."""
    _linalg_check_errors(info, api_name, is_matrix=info.ndim == 0)
