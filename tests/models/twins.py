"""The same thing twice: on the CPU and on the device, from the same weights and inputs."""

import copy

import torch
from torch.utils._pytree import tree_map

DEVICE = "tpu"


def to(device, *values):
    """The values with every tensor in them moved."""
    moved = tree_map(lambda x: x.to(device) if isinstance(x, torch.Tensor) else x, values)
    return moved[0] if len(values) == 1 else moved


def twins(build, seed=0):
    """A CPU model and a copy of it on the device."""
    torch.manual_seed(seed)
    model = build()
    return model, copy.deepcopy(model).to(DEVICE)


def assert_same(got, expected, **tolerance):
    """The device's values are the CPU's, and live on the device."""

    def check(have, want):
        if isinstance(want, torch.Tensor):
            assert have.device.type == DEVICE
            torch.testing.assert_close(have.cpu(), want, **tolerance)
        elif isinstance(want, (list, tuple)):
            assert len(have) == len(want)
            for each, other in zip(have, want, strict=True):
                check(each, other)
        else:
            assert have == want

    check(got, expected)


def assert_same_on_both(function, *inputs, **tolerance):
    """A function gives on the device what it gives on the CPU."""
    expected = function(*inputs)
    assert_same(function(*to(DEVICE, list(inputs))), expected, **tolerance)


def gradients(model):
    return [p.grad for p in model.parameters()]


def state(model):
    return list(model.state_dict().values())
