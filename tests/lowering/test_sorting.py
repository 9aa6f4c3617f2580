"""Sorts, top-k and searches beside CPU PyTorch."""

import math

import numpy as np
import pytest
import torch
from shadow import Shadow, run_rule, run_samples
from torch.testing._internal.common_methods_invocations import op_db

aten = torch.ops.aten
SORTING = ["sort", "argsort", "msort", "topk", "searchsorted", "bucketize"]
NAN, INF = math.nan, math.inf


@pytest.mark.parametrize("op", [op for op in op_db if op.name in SORTING], ids=lambda op: op.name)
def test_samples(op):
    assert run_samples(op, torch.float32, grad=op.supports_autograd, limit=3).seen


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize(
    "self",
    [
        torch.tensor([3.0, NAN, -0.0, 0.0, INF, NAN, -INF, 3.0]),
        torch.randint(-3, 3, (4, 50)),
        torch.tensor([-(2**63), 5, 2**63 - 1, 5, -(2**63)]),
        torch.rand(3, 40) > 0.5,
        torch.randint(0, 4, (2, 30)).to(torch.bfloat16),
        torch.randint(0, 200, (5, 9), dtype=torch.uint8),
        torch.zeros(2, 0),
        torch.tensor(1.5),
    ],
    ids=lambda self: f"{str(self.dtype)[6:]}-{self.numel()}",
)
def test_stable_sort(self, descending):
    with Shadow() as shadow:
        torch.sort(self, stable=True, dim=-1, descending=descending)
        torch.sort(self, stable=True, dim=0, descending=descending)
    assert shadow.seen == {"aten.sort.stable": 2}


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.int8])
def test_topk_values_stand_at_their_places(dtype, largest):
    self = torch.randint(-9, 9, (3, 40, 2)).to(dtype)
    if dtype.is_floating_point:
        self[0, :3] = torch.tensor([NAN, -NAN, INF])[:, None].to(dtype)
        self[1, 5] = -INF
    else:
        self[0, 3], self[1, 4] = torch.iinfo(dtype).min, torch.iinfo(dtype).max
    for k in (0, 5, 40):
        values, places = run_rule(aten.topk.default, (self, k, 1, largest, True), {})
        want = torch.topk(self, k, 1, largest, True)[0]
        places = torch.tensor(np.asarray(places)).long()
        at_places = self.gather(1, places)
        values = torch.tensor(np.asarray(values).astype(np.float64))
        torch.testing.assert_close(values, want.double(), equal_nan=True)
        torch.testing.assert_close(at_places, want, equal_nan=True)
        assert len({*places[0, :, 0].tolist()}) == k


def test_topk_of_nans_of_either_sign():
    bits = torch.tensor([0x7FC00000, -4194304, 0x3F800000, 0x7F800000], dtype=torch.int32)
    self = bits.view(torch.float32)
    values, places = run_rule(aten.topk.default, (self, 3, 0, True, True), {})
    assert np.isnan(np.asarray(values)[:2]).all() and np.asarray(values)[2] == INF
    values, places = run_rule(aten.topk.default, (self, 2, 0, False, True), {})
    assert np.asarray(values).tolist() == [1.0, INF] and np.asarray(places).tolist() == [2, 3]


@pytest.mark.parametrize("length", [0, 7, 64, 65, 1000])
@pytest.mark.parametrize("right", [False, True])
def test_searches_of_every_length(length, right):
    sequence = torch.randint(0, 50, (length,)).float().sort()[0]
    values = torch.cat([torch.randint(-2, 52, (90,)).float(), torch.tensor([NAN, INF, -INF])])
    with Shadow() as shadow:
        torch.searchsorted(sequence, values, right=right)
        torch.bucketize(values, sequence, right=right, out_int32=True)
        torch.searchsorted(sequence, 3, right=right)
    assert len(shadow.seen) == 3


def test_searches_by_row_through_a_sorter():
    sequence = torch.randint(0, 9, (3, 2, 80))
    sorter = sequence.argsort(dim=-1, stable=True)
    with Shadow():
        torch.searchsorted(sequence, torch.randint(0, 9, (3, 2, 6)), sorter=sorter, side="right")
