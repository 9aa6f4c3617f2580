"""What calls take and write: complex numbers, lists of tensors."""

import pytest
import torch
from torch.testing import assert_close


def test_a_complex_number_may_be_an_exponent():
    x = torch.tensor([1 + 2j, 3 - 1j])
    assert_close((x.to("tpu") ** (0.5 + 1j)).cpu(), x ** (0.5 + 1j))


@pytest.mark.parametrize("mode", ["strict", "fused"])
def test_a_write_through_a_list_counts_as_a_write(mode):
    with torch.tpu.set_eager_mode(mode):
        weight = torch.ones(3, device="tpu", requires_grad=True)
        factor = torch.full((3,), 2.0, device="tpu")
        loss = (weight * factor).sum()
        torch._foreach_add_([factor], 1)
        assert factor._version == 1
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()
