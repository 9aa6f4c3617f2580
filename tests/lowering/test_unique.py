"""Distinct elements beside CPU PyTorch."""

import math

import pytest
import torch
from shadow import Shadow, run_rule, run_samples
from torch.testing._internal.common_methods_invocations import op_db

aten = torch.ops.aten
UNIQUE = ["unique", "unique_consecutive"]


@pytest.mark.parametrize("op", [op for op in op_db if op.name in UNIQUE], ids=lambda op: op.name)
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bool], ids=str)
def test_samples(op, dtype):
    assert run_samples(op, dtype, limit=4).seen


@pytest.mark.parametrize("inverse", [False, True])
@pytest.mark.parametrize("counts", [False, True])
@pytest.mark.parametrize(
    "self",
    [
        torch.randint(0, 5, (4, 6)),
        torch.zeros(0, dtype=torch.int64),
        torch.tensor(3.0),
        torch.tensor([1.0, math.nan, 1.0, math.nan, math.inf]),
    ],
    ids=["grid", "empty", "0-dim", "nan"],
)
def test_elements(self, inverse, counts):
    with Shadow() as shadow:
        torch.unique(self, return_inverse=inverse, return_counts=counts)
        torch.unique_consecutive(self, return_inverse=inverse, return_counts=counts)
    assert len(shadow.seen) == 2


@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.float32], ids=str)
def test_slices(dim, dtype):
    self = torch.randint(0, 2, (9, 2, 2)).to(dtype)
    with Shadow() as shadow:
        torch.unique(self, dim=dim, return_inverse=True, return_counts=True)
        torch.unique_consecutive(self, dim=dim, return_inverse=True, return_counts=True)
    assert len(shadow.seen) == 2


def test_results_are_padded_to_a_power_of_two():
    values, inverse, counts = run_rule(
        aten._unique2.default, (torch.tensor([5, 5, 7, 9, 9]), True, True, True), {}
    )
    assert values.shape == counts.shape == (4,)
    assert values[:3].tolist() == [5, 7, 9] and counts[:3].tolist() == [2, 1, 2]
    assert inverse.tolist() == [0, 0, 1, 2, 2]
