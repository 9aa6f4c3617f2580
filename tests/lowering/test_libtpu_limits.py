"""What libtpu refuses is not in programs for TPUs: docs/numerics.md has the list."""

import re

import pytest
import torch
from lowered import lowered

aten = torch.ops.aten

WIDE_PRODUCT = re.compile(r"stablehlo\.(?:dot_general|convolution).*: \(.*x[su]?i64>")


def integers(*sizes):
    return torch.randint(-9, 9, sizes)


SQUARE = torch.eye(4)
CALLS = {
    "mm": (aten.mm.default, integers(3, 4), integers(4, 5)),
    "bmm": (aten.bmm.default, integers(2, 3, 4), integers(2, 4, 5)),
    "addbmm": (aten.addbmm.default, integers(3, 5), integers(2, 3, 4), integers(2, 4, 5)),
    "mv": (aten.mv.default, integers(3, 4), integers(4)),
    "dot": (aten.dot.default, integers(4), integers(4)),
    "svd": (aten._linalg_svd.default, SQUARE),
    "svd of a batch": (aten._linalg_svd.default, torch.randn(2, 5, 3)),
    "full svd": (aten._linalg_svd.default, torch.randn(5, 3), True),
    "lstsq": (aten.linalg_lstsq.default, torch.randn(6, 4), torch.randn(6, 2)),
    "eigh": (aten._linalg_eigh.default, SQUARE),
}


@pytest.mark.parametrize("name", CALLS)
def test_no_product_of_64_bit_integers(name):
    lines = lowered("highest", *CALLS[name]).splitlines()
    assert [line for line in lines if WIDE_PRODUCT.search(line)] == []
