"""Joining, reordering, padding, triangles and view-derived ops beside CPU PyTorch."""

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db

from tests.lowering.shadow import Shadow, run_samples

aten = torch.ops.aten

NAMES = [
    "cat",
    "stack",
    "block_diag",
    "flip",
    "roll",
    "rot90",
    "repeat",
    "tril",
    "triu",
    "diag_embed",
    "diagonal_copy",
    "permute_copy",
    "split_with_sizes_copy",
    "view_copy",
    "constant_pad_nd",
    "nn.functional.pixel_shuffle",
    "nn.functional.pixel_unshuffle",
    "nn.functional.channel_shuffle",
    "slice_scatter",
    "select_scatter",
    "diagonal_scatter",
    "as_strided_scatter",
    "unfold",
]


@pytest.mark.parametrize("name", NAMES)
def test_samples(name):
    names = [(op, f"{op.name}.{op.variant_test_name}") for op in op_db]
    op = next((op for op, full in names if name in (op.name, full)), None)
    if op is None:
        op = next(op for op in op_db if name == op.aten_name)
    shadow = run_samples(op, torch.float32, grad=op.supports_autograd, limit=4)
    assert shadow.seen


def test_dtypes():
    with Shadow() as shadow:
        for dtype in (torch.bool, torch.int64, torch.bfloat16, torch.complex64):
            x = torch.ones(3, 4, dtype=dtype)
            x.tril(-1), x.triu(5), x.flip(0, -1), x.roll(1, -1), x.roll(5), x.repeat(2, 1, 3)
            torch.cat([x, torch.empty(0), x.float()]), torch.stack([x, x], -1)
            torch.constant_pad_nd(x, (1, -1, 0, 2), 1), torch.diag_embed(x, -1, 0, 2)
    assert shadow.seen["aten.cat.default"] == 4


def test_views_backward():
    with Shadow() as shadow:
        x = torch.randn(6, 5, requires_grad=True)
        y = x[1:5:2, 2].sum() + x.diagonal(1).prod() + x.unfold(0, 3, 1).sin().sum()
        (y + x.unfold(1, 2, 3).cos().sum() + x.transpose(0, 1)[0].exp().sum()).backward()
    for name in ("select_backward", "diagonal_backward", "slice_backward", "unfold_backward"):
        assert shadow.seen[f"aten.{name}.default"], name


def test_copies_of_views():
    x = torch.randn(4, 6)
    with Shadow() as shadow:
        aten.slice_copy.Tensor(x, 1, 1, 5, 2), aten.select_copy.int(x, 0, -1), aten.t_copy(x)
        aten.unsqueeze_copy(x, -1), aten.expand_copy(x[:, None], [4, 3, 6]), aten.alias_copy(x)
        aten.unfold_copy(x, 1, 3, 2), aten.view_copy.dtype(x, torch.int32), aten.clone(x.t())
        aten.view_as_complex_copy(x.view(4, 3, 2)), aten.unbind_copy.int(x, 1)
        aten.unsafe_split.Tensor(x, 4, 1), aten._conj_copy(torch.complex(x, x))
        aten.squeeze_copy.dim(x[:1], 0), aten.split_copy.Tensor(x, 3, 0)
        aten.narrow_copy(x, 0, 1, 2), aten.view_as_real_copy(torch.complex(x, x))
    assert len(shadow.seen) >= 17


@pytest.mark.parametrize("offset", [-6, -2, 0, 1, 9])
def test_triangle_indices(offset):
    with Shadow() as shadow:
        torch.tril_indices(4, 5, offset), torch.triu_indices(4, 5, offset)
        torch.tril_indices(0, 3, offset)
    assert len(shadow.seen) == 2
