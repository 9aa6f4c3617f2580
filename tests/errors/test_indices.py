"""Indices out of range raise CPU PyTorch's error: at the op in debug, when waiting in strict."""

import pytest
import torch
from comparison import raised
from torch.nn import functional as F


def high(device, *sizes):
    """Indices whose last is one too many for a length of 3."""
    indices = torch.zeros(sizes or (2,), dtype=torch.long)
    indices.view(-1)[-1] = 3
    return indices.to(device)


def ones(device, *sizes):
    return torch.ones(sizes or (3,), device=device)


MISTAKES = {
    "index": lambda d: ones(d)[high(d)],
    "index of a matrix": lambda d: ones(d, 3, 3)[high(d), high(d)],
    "a negative index": lambda d: ones(d)[high(d) * -2],
    "assignment": lambda d: ones(d).__setitem__(high(d), 2.0),
    "index_put": lambda d: ones(d).index_put((high(d),), ones(d, 2)),
    "index_put that accumulates": lambda d: ones(d).index_put_((high(d),), ones(d, 2), True),
    "index_select": lambda d: ones(d).index_select(0, high(d)),
    "index_add": lambda d: ones(d).index_add(0, high(d), ones(d, 2)),
    "index_add of rows": lambda d: ones(d, 3, 4).index_add(0, high(d), ones(d, 2, 4)),
    "index_copy": lambda d: ones(d).index_copy(0, high(d), ones(d, 2)),
    "index_fill": lambda d: ones(d).index_fill(0, high(d), 2.0),
    "gather": lambda d: ones(d).gather(0, high(d)),
    "scatter": lambda d: ones(d).scatter(0, high(d), ones(d, 2)),
    "scatter of a number": lambda d: ones(d).scatter(0, high(d), 2.0),
    "scatter_add": lambda d: ones(d).scatter_add(0, high(d), ones(d, 2)),
    "scatter_reduce": lambda d: ones(d).scatter_reduce(0, high(d), ones(d, 2), "amax"),
    "index_reduce": lambda d: ones(d).index_reduce(0, high(d), ones(d, 2), "mean"),
    "the first of several": lambda d: ones(d)[high(d) * 2 - high(d, 2).flip(0) * 3],
    "take": lambda d: ones(d).take(high(d)),
    "put": lambda d: ones(d).put(high(d), ones(d, 2)),
    "embedding": lambda d: F.embedding(high(d), ones(d, 3, 4)),
    "one_hot": lambda d: ones(d, 1, 3).scatter(1, high(d, 1, 1), 1.0),
    "nll_loss": lambda d: F.nll_loss(ones(d, 2, 3), high(d)),
    "cross_entropy": lambda d: F.cross_entropy(ones(d, 2, 3), high(d)),
    "cross_entropy of images": lambda d: F.cross_entropy(ones(d, 2, 3, 1, 1), high(d, 2, 1, 1)),
    "multi_margin_loss": lambda d: F.multi_margin_loss(ones(d, 2, 3), high(d)),
    "repeat_interleave": lambda d: torch.repeat_interleave(ones(d), high(d, 3) * -1),
    "bincount": lambda d: torch.bincount(high(d) * -1),
    "multinomial": lambda d: torch.multinomial(ones(d) * -1, 1),
    "multinomial of negatives, several": lambda d: torch.multinomial(ones(d) * -1, 2, True),
    "multinomial of infinities": lambda d: torch.multinomial(ones(d) * torch.inf, 2, True),
    "multinomial of nothing": lambda d: torch.multinomial(ones(d) * 0, 2, True),
    "multinomial of too many": lambda d: torch.multinomial(ones(d, 2**24 + 1), 2),
    "integer division by zero": lambda d: torch.div(high(d), high(d) * 0, rounding_mode="floor"),
    "singular matrix": lambda d: torch.linalg.inv(ones(d, 3, 3)),
    "indefinite matrix": lambda d: torch.linalg.cholesky(-ones(d, 2, 2)),
}
ACCEPTED = {
    "ignored targets": lambda d: F.nll_loss(ones(d, 2, 3), high(d) - 103 * high(d).gt(0)),
    "negative indices": lambda d: ones(d)[high(d) * -1],
    "no indices": lambda d: ones(d)[high(d)[:0]],
}


@pytest.mark.parametrize("mode", ["strict", "fused", "debug"])
@pytest.mark.parametrize("name", MISTAKES)
def test_out_of_range_is_refused_as_on_the_cpu(name, mode):
    with torch.tpu.set_eager_mode(mode):
        expected, refused = (raised(MISTAKES[name], device) for device in ("cpu", "tpu"))
    assert refused == expected


@pytest.mark.parametrize("name", ACCEPTED)
def test_what_only_looks_out_of_range_is_accepted(name):
    assert raised(ACCEPTED[name], "cpu") is raised(ACCEPTED[name], "tpu") is None


def test_bags_of_embeddings_are_refused():
    with pytest.raises(IndexError, match="index out of range in self"):
        F.embedding_bag(high("tpu", 1, 2), ones("tpu", 3, 4)).sum().item()


def test_one_hot_of_too_few_classes_is_refused():
    with pytest.raises(RuntimeError, match="out of bounds for dimension 1 with size 3"):
        F.one_hot(high("tpu"), 3).sum().item()


def test_debug_raises_at_the_op():
    x, index = ones("tpu"), high("tpu")
    with torch.tpu.set_eager_mode("debug"), pytest.raises(IndexError):
        x.take(index)


def test_strict_raises_at_the_next_value_that_is_read():
    wrong = ones("tpu").take(high("tpu"))
    fine = ones("tpu") + 1
    with pytest.raises(IndexError):
        wrong.sum().item()
    assert fine.tolist() == [2, 2, 2]
