"""A function compiled for the device beside the same function, eager on the CPU."""

import torch
from torch._dynamo.utils import counters
from torch.utils._pytree import tree_leaves, tree_map
from twins import DEVICE, assert_same

from torch_tpu import _C

BACKEND = "tpu"


def compiled(function, *, fullgraph=True, **options):
    return torch.compile(function, backend=BACKEND, fullgraph=fullgraph, **options)


def programs_got():
    """How many programs were compiled, or loaded from a cache, so far."""
    counters = _C.counters()
    return sum(counters[name] for name in ("compiles", "disk_hits", "shared_hits"))


def randn(*sizes, seed=1, dtype=torch.float32, device="cpu"):
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(seed), dtype=dtype).to(
        device
    )


def copies(device, values):
    """The tensors among the values, copied as they are laid out; numbers and others as they are."""

    def copy(value):
        if not isinstance(value, torch.Tensor):
            return value
        return value.detach().to(device, copy=True).requires_grad_(value.requires_grad)

    return tree_map(copy, list(values))


def assert_compiles(function, *inputs, calls=2, fullgraph=True, **tolerance):
    """Compiled on the device a function returns, and makes of its inputs, what it does on the CPU.

    Called more than once, because what a first call decides the second one reuses.
    """
    run = compiled(function, fullgraph=fullgraph)
    for _ in range(calls):
        host, device = copies("cpu", inputs), copies(DEVICE, inputs)
        expected, got = function(*host), run(*device)
        assert_same(_detached(got), _detached(expected), **tolerance)
        assert_same(_detached(device), _detached(host), **tolerance)


def assert_trains(function, *inputs, calls=2, fullgraph=True, **tolerance):
    """The above, and the inputs' gradients of the summed outputs agree."""
    run = compiled(function, fullgraph=fullgraph)
    for _ in range(calls):
        host, device = copies("cpu", inputs), copies(DEVICE, inputs)
        expected, got = function(*host), run(*device)
        assert_same(_detached(got), _detached(expected), **tolerance)
        for outputs in (expected, got):
            sum(each.sum() for each in tree_leaves(outputs) if each.requires_grad).backward()
        assert_same(_gradients(device), _gradients(host), **tolerance)


def assert_same_numbers(function, *inputs, fullgraph=True):
    """Compiled or not, a function of random numbers gives the same ones, new ones at each call."""
    run = compiled(function, fullgraph=fullgraph)
    rounds = []
    for each in (function, run):
        torch.manual_seed(5)
        rounds.append([_detached(each(*copies(DEVICE, inputs))) for _ in range(3)])
    eager, got = rounds
    torch.testing.assert_close(got, eager)
    assert not torch.equal(tree_leaves(got[0])[0], tree_leaves(got[1])[0])


def graphs():
    """How many graphs were compiled since the test began."""
    return counters["stats"]["unique_graphs"]


def _detached(values):
    return tree_map(lambda x: x.detach() if isinstance(x, torch.Tensor) else x, values)


def _gradients(values):
    return [each.grad for each in tree_leaves(values) if isinstance(each, torch.Tensor)]
