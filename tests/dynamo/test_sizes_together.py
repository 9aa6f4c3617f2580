"""Sizes of two arguments that a graph brings together: values, gradients and memory as in eager."""

import math

import pytest
import torch
from compiling import compiled, randn
from quick import quick_ones
from torch.nn import functional as F
from twins import DEVICE, assert_same

SIZES = (48, 12), (60, 4), (96, 24), (72, 8)


def n(x):
    return len(x)


CASES = {
    "rows of the other's length": lambda x, y: x.view(-1, n(y)) + y,
    "rows, summed": lambda x, y: (x.view(-1, n(y)) * y).sum(1),
    "rows by half of the other's length": lambda x, y: x.view(n(y) // 2, -1).cumsum(0),
    "rows by a float of the other's length": lambda x, y: x.view(math.ceil(n(y) * 0.5), -1) + 1,
    "transposed rows": lambda x, y: x.view(-1, n(y)).t() * 2,
    "product with rows": lambda x, y: x.view(-1, n(y)) @ y,
    "product of rows": lambda x, y: x.view(n(y), -1).t() @ x.view(n(y), -1),
    "all but as many": lambda x, y: x[: n(x) - n(y)] * 2,
    "behind as many": lambda x, y: x[n(y) :] * 2,
    "the last ones": lambda x, y: x[-n(y) :] * y,
    "the middle": lambda x, y: x[n(y) // 2 : n(x) - n(y) // 2].flip(0),
    "taken apart and put together": lambda x, y: torch.cat([x[n(y) :], y, x[: n(y)]]),
    "split": lambda x, y: torch.split(x, [n(y), n(x) - n(y)])[1] * 2,
    "padded to the other's length": lambda x, y: F.pad(y, (0, n(x) - n(y))) + x,
    "padded in front": lambda x, y: F.pad(y, (n(x) - n(y), 1)),
    "repeated": lambda x, y: y.repeat(n(x) // n(y)).cumsum(0),
    "repeated beside": lambda x, y: y.repeat(n(x) // n(y)) + x[: n(x) // n(y) * n(y)],
    "outer product, flat": lambda x, y: torch.outer(x, y).flatten().flip(0),
    "counted": lambda x, y: torch.arange(n(x) - n(y), device=x.device) + 1.0,
    "made of quotients": lambda x, y: x.new_zeros(n(x) // n(y), n(y)) + y,
    "made of a remainder": lambda x, y: x.new_ones(n(x) % n(y) + 2).cumsum(0),
    "the smaller": lambda x, y: x[: min(n(x), 2 * n(y))].sum(),
    "chunks": lambda x, y: x.view(n(y), -1).chunk(2, 1)[0].sum(1),
    "last row": lambda x, y: x.view(n(y), -1)[n(y) - 1] * 2,
    "interpolated": lambda x, y: F.interpolate(y[None, None], size=n(x))[0, 0],
}
QUICK = (
    "rows, summed",
    "rows by half of the other's length",
    "rows by a float of the other's length",
    "transposed rows",
    "behind as many",
    "the last ones",
    "taken apart and put together",
    "repeated beside",
    "made of quotients",
)


@pytest.mark.parametrize("name", quick_ones(CASES, *QUICK))
def test_values_and_gradients_agree_with_cpu(name):
    function = CASES[name]
    run = compiled(function, dynamic=True)
    for sizes in SIZES:
        host = [randn(size, seed=size).requires_grad_() for size in sizes]
        device = [each.detach().to(DEVICE).requires_grad_() for each in host]
        expected, got = function(*host), run(*device)
        assert got.stride() == expected.stride()
        assert_same(got.detach(), expected.detach())
        if expected.requires_grad:
            weights = torch.arange(expected.numel()).view(expected.shape) % 5 - 2.0
            (expected * weights).sum().backward()
            (got * weights.to(DEVICE)).sum().backward()
            assert_same([each.grad for each in device], [each.grad for each in host])


def of_what_it_writes(x, y):
    x.add_(1)
    return x[n(y) :]


def that_it_writes(x, y):
    view = x[n(y) :]
    view.mul_(2)
    return view


def of_an_argument(x, y):
    view = x[n(y) :]
    return view, view.view(-1, n(y)), x.view(n(y), -1).t()


def of_what_it_makes(x, y):
    made = x * 2
    return made[n(y) :], made[: n(y)]


def that_it_makes_and_writes(x, y):
    made = x * 2
    view = made[n(y) :]
    view.add_(1)
    return made, view


@pytest.mark.parametrize(
    "function",
    [of_what_it_writes, that_it_writes, of_an_argument, of_what_it_makes, that_it_makes_and_writes],
)
def test_views_lie_where_they_would_in_eager_mode(function):
    run = compiled(function, dynamic=True)
    for sizes in ((48, 12), (54, 6)):
        host = [randn(size, seed=size) for size in sizes]
        device = [each.to(DEVICE) for each in host]
        expected, got = function(*host), run(*device)
        if isinstance(expected, torch.Tensor):
            expected, got = [expected], [got]
        assert_same(list(got), list(expected))
        assert [each.storage_offset() for each in got] == [
            each.storage_offset() for each in expected
        ]
        for each in (*expected, *got):
            each.zero_()
        assert_same([*got, *device], [*expected, *host])
