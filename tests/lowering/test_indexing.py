"""Indexing, scatter and mask rules beside CPU PyTorch."""

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db

from tests.lowering.shadow import Shadow, run_rule, run_samples

aten = torch.ops.aten

NAMES = [
    "index_put",
    "index_select",
    "index_add",
    "index_copy",
    "index_fill",
    "gather",
    "scatter",
    "scatter_add",
    "index_reduce.prod",
    "index_reduce.mean",
    "index_reduce.amax",
    "scatter_reduce.sum",
    "scatter_reduce.prod",
    "scatter_reduce.mean",
    "scatter_reduce.amax",
    "scatter_reduce.amin",
    "take",
    "put",
    "masked_fill",
    "masked_scatter",
    "masked_select",
    "nonzero",
    "nonzero_static",
    "argwhere",
    "__getitem__",
    "repeat_interleave",
    "take_along_dim",
    "_unsafe_masked_index",
    "_unsafe_masked_index_put_accumulate",
]


def op_info(name):
    found = [op for op in op_db if name in (op.name, f"{op.name}.{op.variant_test_name}")]
    assert found, name
    return found[0]


@pytest.mark.parametrize("name", NAMES)
def test_samples(name):
    op = op_info(name)
    shadow = run_samples(op, torch.float32, grad=op.supports_autograd, limit=3)
    assert shadow.seen


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.bfloat16, torch.complex64])
@pytest.mark.parametrize("name", ["index_put", "scatter_add", "masked_fill", "index_select"])
def test_dtypes(name, dtype):
    op = op_info(name)
    if dtype in op.dtypes:
        run_samples(op, dtype, limit=2)


def test_indexing_forms():
    x = torch.arange(24.0).reshape(2, 3, 4)
    rows, columns = torch.tensor([1, -1, 0]), torch.tensor([[2], [-3]])
    mask = x[0] > 5
    with Shadow() as shadow:
        x[rows], x[:, columns], x[rows, :, rows], x[:, rows, rows]
        x[x > 3], x[:, mask], x[rows[:2], mask[:, 0].new_tensor([True, False, True])]
        x[:, mask[:, 1]], x[x > 100], x[torch.tensor([True, False])], x[mask.new_zeros(2)]
    assert shadow.seen["aten.index.Tensor"] == 11


def test_writes_through_masks():
    values = torch.arange(7.0)
    with Shadow() as shadow:
        for accumulate in (False, True):
            x = torch.arange(24.0).reshape(2, 3, 4)
            mask = x[0] > 5
            x.index_put_((x > 16,), values, accumulate=accumulate)
            x.index_put_((x > 3,), torch.tensor(-1.0), accumulate=accumulate)
            aten.index_put_(x, (None, mask), torch.rand(2, 6), accumulate)
            aten.index_put_(x, (None, mask), torch.rand(2, 1), accumulate)
            flags = torch.tensor([True, False, True])
            x.index_put_((torch.tensor([0, 1]), flags), torch.rand(2, 4), accumulate=accumulate)
            x.index_put_((torch.tensor([1]), flags), torch.rand(4), accumulate=accumulate)
    assert sum(shadow.seen.values()) >= 12


@pytest.mark.parametrize(
    "overload, args, message",
    [
        (aten.index_select.default, (torch.ones(3), 0, torch.tensor([3])), "index out of range"),
        (aten.index_select.default, (torch.ones(3), 0, torch.tensor([-1])), "index out of range"),
        (aten.gather.default, (torch.ones(3), 0, torch.tensor([-1])), "dimension 0 with size 3"),
        (aten.index.Tensor, (torch.ones(2, 3), [None, torch.tensor([3])]), "dimension 1 with"),
        (aten.index.Tensor, (torch.ones(2, 3), [torch.tensor([-3])]), "dimension 0 with size 2"),
        (aten.scatter.value, (torch.ones(3), 0, torch.tensor([3]), 1.0), "dimension 0 with size 3"),
    ],
)
def test_values_out_of_range_are_refused(overload, args, message):
    with pytest.raises(ValueError, match=message):
        run_rule(overload, args, {})
