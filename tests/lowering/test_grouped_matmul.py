"""Matrix products by group beside CPU PyTorch, which composes them, and beside its products."""

import pytest
import torch
from shadow import run_rule, to_tensor
from torch.testing import assert_close

aten = torch.ops.aten

ENDS = torch.tensor([2, 2, 5, 8], dtype=torch.int32)
PARTS = [slice(0, 2), slice(2, 2), slice(2, 5), slice(5, 8)]


# How the operands are split: their sizes (the second with its last two swapped) and ends of groups.
LAYOUTS = {
    "rows": ((8, 16), (4, 24, 16), ENDS),
    "columns": ((4, 24, 16), (8, 16), ENDS),
    "the inner dimension": ((16, 8), (24, 8), ENDS),
    "nothing": ((4, 8, 16), (4, 24, 16), None),
}


def by_group(lhs, rhs):
    """The reference: a product for each group."""
    if lhs.dim() == rhs.dim() == 3:
        return lhs @ rhs
    if rhs.dim() == 3:
        return torch.cat([lhs[part] @ each for part, each in zip(PARTS, rhs, strict=True)])
    if lhs.dim() == 3:
        products = [each @ rhs[:, part] for part, each in zip(PARTS, lhs, strict=True)]
        return torch.cat(products, dim=1)
    return torch.stack([lhs[:, part] @ rhs[part] for part in PARTS])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_grouped_mm(layout, dtype):
    torch.manual_seed(0)
    lhs_size, rhs_size, ends = LAYOUTS[layout]
    lhs, rhs = torch.randn(lhs_size).to(dtype), torch.randn(rhs_size).to(dtype).mT
    expected = torch._grouped_mm(lhs, rhs, offs=ends)
    got = run_rule(aten._grouped_mm.default, (lhs, rhs, ends), {})
    assert_close(to_tensor(got, dtype), expected)
    assert_close(expected, by_group(lhs, rhs))


def test_rows_after_the_last_group_are_zero():
    lhs, rhs = torch.randn(8, 16), torch.randn(2, 16, 24)
    ends = torch.tensor([3, 6], dtype=torch.int32)
    got = to_tensor(run_rule(aten._grouped_mm.default, (lhs, rhs, ends), {}), torch.float32)
    assert_close(got[:6], torch._grouped_mm(lhs, rhs, offs=ends)[:6])
    assert_close(got[6:], torch.zeros(2, 24))


def scales_of(operand, rows, groups):
    """A scale per row of an operand and, where its inner dimension is split, per group."""
    if operand.dim() == 3:
        return torch.rand(operand.shape[0], rows)
    return torch.rand(rows * groups)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_scaled_grouped_mm(layout):
    """The CPU has none: beside products of operands that are scaled before."""
    torch.manual_seed(0)
    lhs_size, rhs_size, ends = LAYOUTS[layout]
    lhs, rhs = (torch.randn(size).to(torch.float8_e4m3fn) for size in (lhs_size, rhs_size))
    groups = 4 if lhs.dim() == rhs.dim() == 2 else 1
    scales = [scales_of(each, each.shape[-2], groups) for each in (lhs, rhs)]
    got = run_rule(aten._scaled_grouped_mm.default, (lhs, rhs.mT, *scales, ends), {})
    scaled = [_scaled(*pair) for pair in zip((lhs, rhs), scales, strict=True)]
    assert_close(to_tensor(got, torch.float32), by_group(scaled[0], scaled[1].mT))


def _scaled(operand, scale):
    """The operand times its scales; those of a split inner dimension differ by group."""
    operand = operand.float()
    if scale.dim() == 2:
        return operand * scale[..., None]
    if scale.numel() == operand.shape[0]:
        return operand * scale[:, None]
    scaled = torch.empty_like(operand)
    for part, each in zip(PARTS, scale.reshape(len(PARTS), -1), strict=True):
        scaled[:, part] = operand[:, part] * each[:, None]
    return scaled
