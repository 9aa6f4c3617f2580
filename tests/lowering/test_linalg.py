"""Linear algebra beside CPU PyTorch."""

import jax
import jax.numpy as jnp
import pytest
import torch
from family import Outside
from shadow import Shadow, run_rule, run_samples, to_tensor
from torch.testing import assert_close
from torch.testing._internal.common_methods_invocations import op_db

from torch_tpu.lowering import linalg, linalg_factorizations
from torch_tpu.lowering.checks import collect_checks

aten = torch.ops.aten

OTHERS = Outside("linalg", "linalg_errors", "linalg_factorizations")

OPS = {
    "cholesky": 3,
    "cholesky_inverse": 3,
    "cholesky_solve": 3,
    "geqrf": 4,
    "linalg.cholesky_ex": 3,
    "linalg.det": 4,
    "linalg.householder_product": 4,
    "linalg.inv_ex": 3,
    "linalg.lstsq": 4,
    "linalg.lu": 3,
    "linalg.lu_factor_ex": 2,
    "linalg.lu_solve": 2,
    "linalg.matrix_exp": 3,
    "linalg.qr": 4,
    "linalg.slogdet": 4,
    "linalg.solve_ex": 3,
    "linalg.solve_triangular": 5,
    "lu_unpack": 3,
    "ormqr": 5,
    "triangular_solve": 4,
}


@pytest.mark.parametrize("op", [op for op in op_db if op.name in OPS], ids=lambda op: op.name)
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex64], ids=str)
def test_samples(op, dtype):
    plain = dtype == torch.float64
    grad = plain and dtype in op.supported_backward_dtypes("cpu")
    tolerance = 1e-7 if plain else 1e-3
    limit = OPS[op.name] if plain else 1
    shadow = run_samples(
        op, dtype, grad=grad, limit=limit, skip=OTHERS, rtol=tolerance, atol=tolerance
    )
    assert shadow.seen


def arrays(results, dtypes):
    return [to_tensor(array, dtype) for array, dtype in zip(results, dtypes, strict=True)]


@pytest.mark.parametrize("shape", [(4, 4), (2, 3, 3), (0, 3, 3), (0, 0)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=str)
@pytest.mark.parametrize("uplo", ["L", "U"])
def test_eigh(shape, dtype, uplo):
    matrix = torch.randn(*shape, dtype=dtype)
    values, vectors = arrays(
        run_rule(aten._linalg_eigh.default, (matrix, uplo), {}), (torch.float64, dtype)
    )
    assert_close(values, torch.linalg.eigvalsh(matrix, uplo))
    half = matrix.tril() if uplo == "L" else matrix.triu()
    diagonal = torch.diag_embed(half.diagonal(dim1=-2, dim2=-1).real).to(dtype)
    strict = half - torch.diag_embed(half.diagonal(dim1=-2, dim2=-1))
    assert_close((vectors * values.unsqueeze(-2)) @ vectors.mH, strict + strict.mH + diagonal)
    with Shadow(skip=OTHERS) as shadow:
        aten._linalg_eigh(matrix, uplo, False)
    assert shadow.seen


@pytest.mark.parametrize("shape", [(4, 3), (2, 3, 5), (0, 3, 2), (0, 3), (2, 0)], ids=str)
@pytest.mark.parametrize("full", [False, True])
def test_svd(shape, full):
    matrix = torch.randn(*shape, dtype=torch.float64)
    U, S, Vh = arrays(run_rule(aten._linalg_svd.default, (matrix, full), {}), [torch.float64] * 3)
    expected = torch.linalg.svd(matrix, full)
    assert [U.shape, S.shape, Vh.shape] == [each.shape for each in expected]
    assert_close(S, expected.S)
    inner = S.shape[-1]
    assert_close((U[..., :inner] * S.unsqueeze(-2)) @ Vh[..., :inner, :], matrix)
    with Shadow(skip=OTHERS) as shadow:
        aten._linalg_svd(matrix, full, False)
    assert shadow.seen


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=str)
def test_eig(dtype):
    matrix = torch.randn(3, 4, 4, dtype=dtype)
    values, vectors = arrays(
        run_rule(aten.linalg_eig.default, (matrix,), {}), [torch.complex128] * 2
    )
    assert_close(matrix.to(torch.complex128) @ vectors, vectors * values.unsqueeze(-2))
    assert_close(torch.linalg.vector_norm(vectors, dim=-2), torch.ones(3, 4, dtype=torch.float64))
    (alone,) = arrays([run_rule(aten._linalg_eigvals.default, (matrix,), {})], [torch.complex128])
    order = lambda each: each.gather(-1, each.real.add(each.imag, alpha=1e-3).argsort())  # noqa: E731
    assert_close(order(alone), order(values))


@pytest.mark.parametrize("driver", ["gels", "gelsd", "gelss", "gelsy"])
@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (2, 5, 3)], ids=str)
def test_lstsq_drivers(driver, shape):
    matrix, rhs = torch.randn(*shape), torch.randn(*shape[:-1], 2)
    with Shadow(skip=OTHERS) as shadow:
        torch.linalg.lstsq(matrix, rhs, driver=driver)
    assert shadow.seen["aten.linalg_lstsq.default"] == 1


def refusal(op, *args, **kwargs):
    with pytest.raises(ValueError) as caught:
        run_rule(op.default, args, kwargs)
    return str(caught.value)


INDEFINITE = torch.tensor([[1.0, 2.0], [2.0, 1.0]])


@pytest.mark.parametrize(
    "matrix",
    [INDEFINITE, torch.zeros(2, 2), torch.stack([torch.eye(2), INDEFINITE])],
    ids=["order 2", "order 1", "batch"],
)
def test_refusals_are_worded_as_on_the_cpu(matrix):
    calls = [(aten.linalg_cholesky_ex, {"check_errors": True}), (aten.cholesky, {})]
    if not matrix.any():
        calls += [
            (aten.linalg_inv_ex, {"check_errors": True}),
            (aten.linalg_lu_factor_ex, {"check_errors": True}),
            (aten.cholesky_inverse, {}),
        ]
    for op, options in calls:
        with pytest.raises(RuntimeError) as expected:
            op(matrix, **options)
        assert refusal(op, matrix, **options) == str(expected.value)


@pytest.mark.parametrize(
    "api_name", ["linalg.inv", "torch.linalg.solve", "linalg.svd", "linalg.eigh"]
)
@pytest.mark.parametrize("info", [torch.tensor(3), torch.tensor([0, 2, 1])], ids=["one", "batch"])
def test_check_errors(api_name, info):
    info = info.int()
    with pytest.raises(RuntimeError) as expected:
        torch._linalg_check_errors(info, api_name, is_matrix=info.ndim == 0)
    op = aten._linalg_check_errors
    assert refusal(op, info, api_name, is_matrix=info.ndim == 0) == str(expected.value)
    run_rule(op.default, (info * 0, api_name), {"is_matrix": info.ndim == 0})


def test_refusal_of_what_has_no_message_of_its_own():
    info = torch.zeros(40, dtype=torch.int32)
    info[30] = 500
    message = refusal(aten._linalg_check_errors, info, "linalg.cholesky", is_matrix=False)
    assert "the leading minor of order n is not positive-definite" in message


def test_refusal_is_a_linalg_error():
    with collect_checks() as checks:
        linalg_factorizations.cholesky(-jnp.eye(2))
    assert {error for error, _ in checks.errors} == {torch.linalg.LinAlgError.__name__}


def test_svd_refuses_nan():
    assert "contained non-finite values" in refusal(aten._linalg_svd, torch.full((2, 2), torch.nan))


def test_info_without_an_error():
    with Shadow(skip=OTHERS) as shadow:
        for matrix in (torch.eye(3), torch.zeros(3, 3)):
            torch.linalg.lu_factor_ex(matrix)
    info = run_rule(aten.linalg_cholesky_ex.default, (INDEFINITE.expand(3, 2, 2),), {})[1]
    assert shadow.seen
    assert info.tolist() == [2, 2, 2]


def test_determinants_keep_the_factors_that_backward_expects():
    """Those of the transpose for a contiguous matrix, those of the matrix itself elsewhere."""
    matrix = torch.randn(3, 3)
    with jax.enable_x64(True):
        for layout in (matrix, matrix.mT):
            array = jnp.asarray(layout.contiguous().numpy())
            contiguous = layout.is_contiguous()
            for rule, op in (
                (linalg._linalg_det, aten._linalg_det),
                (linalg._linalg_slogdet, aten._linalg_slogdet),
            ):
                got = rule(array, contiguous=contiguous)
                for have, want in zip(got, op(layout), strict=True):
                    assert_close(to_tensor(have, want.dtype), want)


@pytest.mark.parametrize("norm", [1e-3, 0.4, 3.0, 40.0])
def test_matrix_exp(norm):
    matrix = torch.randn(5, 5, dtype=torch.float64)
    matrix *= norm / torch.linalg.matrix_norm(matrix, 1)
    with Shadow(skip=OTHERS, rtol=1e-11, atol=1e-11) as shadow:
        torch.linalg.matrix_exp(matrix)
        torch.linalg.matrix_exp(torch.stack([matrix, torch.zeros_like(matrix)]))
        torch.linalg.matrix_exp(torch.full((2, 2), torch.nan))
    assert shadow.seen["aten.linalg_matrix_exp.default"] == 3
