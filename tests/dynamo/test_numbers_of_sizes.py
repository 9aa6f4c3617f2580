"""Numbers that a function computes from its open sizes are those of the true sizes."""

import math

import pytest
import torch
from compiling import compiled, randn
from twins import DEVICE, assert_same


def _mean_square(x):
    return x.square() * (1 / x.shape[0])


def _scaled_attention(x):
    return torch.nn.functional.scaled_dot_product_attention(x[None], x[None], x[None])


def _smoothed_loss(x):
    return torch.nn.functional.cross_entropy(x, x.argmax(1), label_smoothing=0.1)


@pytest.mark.parametrize("function", [_mean_square, _scaled_attention, _smoothed_loss])
def test_with_all_sizes_open(function):
    run = compiled(function, dynamic=True)
    for rows in (5, 6, 9):
        x = randn(rows, 3)
        assert_same(run(x.to(DEVICE)), function(x))


FRACTIONS = {
    "trunc of a quotient": lambda x: x[: int(x.shape[0] / 2)] * 2,
    "trunc of a product": lambda x: x[: int(x.shape[0] * 0.7)] * 2,
    "ceil": lambda x: x[: math.ceil(x.shape[0] / 4)] * 2,
    "floor of a root": lambda x: x[: math.floor(math.sqrt(x.shape[0]))] * 2,
}


@pytest.mark.parametrize("name", FRACTIONS)
def test_a_part_may_be_as_long_as_a_fraction_of_an_open_size(name):
    run = compiled(FRACTIONS[name], dynamic=True)
    for rows in (6, 9, 14):
        x = randn(rows)
        assert_same(run(x.to(DEVICE)), FRACTIONS[name](x))


def test_a_size_that_values_decide_is_compared_inside_the_graph():
    def function(x, n):
        size = n.item()
        torch._check(size >= 2)
        torch._check(size <= x.shape[0])
        return x[:size].sum(), x.new_ones(size) * 2

    x = randn(7)
    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        run = compiled(function)
        for size in (3, 5):
            n = torch.tensor(size)
            assert_same(run(x.to(DEVICE), n.to(DEVICE)), function(x, n))


def test_a_selection_by_a_mask_goes_on_inside_the_graph():
    def function(x):
        return x.sin()[x > 0].cos() * 2

    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        run = compiled(function)
        for seed in (1, 2):
            x = randn(20, seed=seed)
            assert_same(run(x.to(DEVICE)), function(x))
