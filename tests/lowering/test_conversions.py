"""Conversions between dtypes give what they give on the CPU, beyond the target's range, too."""

import pytest
import torch

FLOATS = torch.tensor([-1.5, -1, 200.7, 300, -129, 70000, -70000, 1e6, 3.9, -0.9])
COMPLEX = torch.tensor([0j, 1j, -0.001j, 1, complex(0, torch.nan)])


@pytest.mark.parametrize("target", [torch.uint8, torch.int8, torch.int16, torch.uint16])
@pytest.mark.parametrize("source", [torch.float32, torch.float64, torch.bfloat16])
def test_floats_beyond_a_narrow_integer_wrap_around(source, target):
    floats = FLOATS.to(source)
    assert floats.to("tpu").to(target).cpu().equal(floats.to(target))
    written = torch.zeros(len(floats), dtype=target, device="tpu").copy_(floats.to("tpu"))
    assert written.cpu().equal(floats.to(target))


def test_complex_numbers_are_true_for_their_imaginary_part():
    assert COMPLEX.to("tpu").bool().tolist() == COMPLEX.bool().tolist()


def test_arcsinh_is_on_the_side_of_a_branch_cut_that_the_sign_of_zero_tells():
    zeros = torch.complex(torch.tensor([-0.0, 0, -0.0, 0]), torch.tensor([-2.0, -2, 2, 2]))
    torch.testing.assert_close(zeros.to("tpu").asinh().cpu(), zeros.asinh())
