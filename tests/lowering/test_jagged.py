"""Rows of several lengths, padded and packed, beside CPU PyTorch."""

import pytest
import torch
from shadow import Shadow

aten = torch.ops.aten
OFFSETS = (0, 2, 2, 7, 10)


@pytest.mark.parametrize("inner", [(), (3,), (2, 3)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bool], ids=str)
def test_rows_padded_and_packed(inner, dtype):
    values, offsets = (torch.randn(10, *inner) * 3).to(dtype), torch.tensor(OFFSETS)
    with Shadow() as shadow:
        for longest in (5, 8):
            padded = aten._jagged_to_padded_dense_forward(values, [offsets], [longest], 1.0)
            aten._padded_dense_to_jagged_forward(padded, [offsets], 10)
            aten._padded_dense_to_jagged_forward(padded, [offsets])
        aten._jagged_to_padded_dense_forward(values, [offsets], [3], 1.0)  # cut
    assert len(shadow.seen) == 2


def test_the_last_offset_is_the_length_where_none_is_given():
    offsets, padded = torch.tensor(OFFSETS), torch.randn(4, 5, 3)
    expected = aten._padded_dense_to_jagged_forward(padded, [offsets])
    got = aten._padded_dense_to_jagged_forward(padded.to("tpu"), [offsets.to("tpu")])
    assert torch.equal(got.cpu(), expected)


def test_rows_that_do_not_fit_are_refused():
    offsets = torch.tensor(OFFSETS, device="tpu")
    padded = torch.ones(4, 3, device="tpu")
    for total, message in ((10, "a row is longer"), (9, "final offset should match")):
        with pytest.raises(RuntimeError, match=message):
            aten._padded_dense_to_jagged_forward(padded, [offsets], total).sum().item()
