"""LDL factorizations on the device: LAPACK's pivots and factors, and solving with them."""

import pytest
import torch
from torch.testing import assert_close

import torch_tpu

DTYPES = [torch.float32, torch.complex64]


@pytest.fixture(autouse=True)
def no_fallback():
    with torch_tpu.diagnostics.fallback_policy("error"):
        yield


def _matrices(dtype, size=6):
    """A random matrix, and one with a diagonal of zeros, which needs blocks of two rows."""
    generator = torch.Generator().manual_seed(size)
    plain = torch.randn(size, size, dtype=dtype, generator=generator)
    hollow = plain.clone()
    hollow.diagonal().zero_()
    return torch.stack([plain, hollow])


@pytest.mark.parametrize("hermitian", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_pivots_and_factors_are_lapacks(dtype, hermitian):
    matrices = _matrices(dtype)
    want = torch.linalg.ldl_factor_ex(matrices, hermitian=hermitian)
    have = torch.linalg.ldl_factor_ex(matrices.to("tpu"), hermitian=hermitian)
    assert (want.pivots < 0).any()
    assert torch.equal(have.pivots.cpu(), want.pivots)
    assert torch.equal(have.info.cpu(), want.info)
    assert have.LD.stride() == want.LD.stride()
    assert_close(have.LD.cpu(), want.LD)


@pytest.mark.parametrize("hermitian", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_solving_with_the_factors_gives_back_the_right_hand_side(dtype, hermitian):
    matrices = _matrices(dtype).to(torch.promote_types(dtype, torch.float64))
    matrices = matrices + (matrices.mH if hermitian else matrices.mT)
    solution = torch.randn(
        2, 6, 3, dtype=matrices.dtype, generator=torch.Generator().manual_seed(1)
    )
    factors = torch.linalg.ldl_factor(matrices.to("tpu"), hermitian=hermitian)
    solved = torch.linalg.ldl_solve(*factors, (matrices @ solution).to("tpu"), hermitian=hermitian)
    assert_close(solved.cpu(), solution)


def test_a_column_of_zeros_is_named_in_info():
    matrix = torch.diag(torch.tensor([1.0, 0.0, 2.0]))
    assert torch.linalg.ldl_factor_ex(matrix.to("tpu")).info.item() == 2


def test_pivots_of_zero_are_refused_as_on_the_cpu():
    matrix, pivots = torch.eye(2), torch.zeros(2, dtype=torch.int32)
    for device in ("cpu", "tpu"):
        with pytest.raises(RuntimeError, match="must all satisfy"):
            torch.linalg.ldl_solve(*(t.to(device) for t in (matrix, pivots, matrix))).cpu()
