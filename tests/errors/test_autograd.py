"""Autograd's refusals are the same on every device."""

import copy

import pytest
import torch
from comparison import assert_same_refusal
from torch import nn


def leaf(device, *sizes):
    return torch.ones(sizes or (3,), device=device, requires_grad=True)


def backward_twice(device):
    loss = (leaf(device) ** 2).sum()
    loss.backward()
    loss.backward()


def backward_after_inplace(device):
    x = leaf(device)
    y = x.exp()
    y.add_(1)
    y.sum().backward()


def backward_after_inplace_through_a_view(device):
    x = leaf(device)
    y = x.sigmoid()
    y[0].zero_()
    y.sum().backward()


def backward_after_parameters_changed(device):
    x = leaf(device, 2, 2)
    loss = ((x * 1) @ x).sum()
    with torch.no_grad():
        x.mul_(2)
    loss.backward()


def double_backward_of_a_freed_graph(device):
    x = leaf(device)
    y = (x**3).sum()
    (gradient,) = torch.autograd.grad(y, x)
    gradient.sum().backward()


def change_of_one_of_many_views(device):
    first, _ = (leaf(device, 4) * 1).split(2)
    first.add_(1)


def saved_tensor_resized(device):
    x = leaf(device)
    y = x * x
    x.data.untyped_storage().resize_(0)
    y.resize_(5)


class Once(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, gradient):
        return gradient * 2


class TooFew(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        return x * y

    @staticmethod
    def backward(ctx, gradient):
        return gradient


def grad_of(function, *sizes):
    return lambda device: function(leaf(device, *sizes))


def backward_through(function):
    return lambda device: function(device).sum().backward()


MISTAKES = {
    "in-place on a leaf": grad_of(lambda x: x.add_(1)),
    "in-place on a view of a leaf": grad_of(lambda x: x[0].zero_()),
    "assignment into a leaf": grad_of(lambda x: x.__setitem__(0, 1)),
    "out= of a leaf": grad_of(lambda x: torch.add(x, 1, out=torch.empty_like(x))),
    "in-place on an expanded tensor": lambda d: torch.ones(1, device=d).expand(3).add_(1),
    "copy into an expanded tensor": lambda d: (
        torch.ones(1, device=d).expand(3).copy_(torch.ones(3, device=d))
    ),
    "in-place from an overlapping tensor": lambda d: (lambda x: x[1:].add_(x[:-1]))(
        torch.ones(4, device=d)
    ),
    "out= overlaps the input": lambda d: (lambda x: torch.exp(x[1:], out=x[:-1]))(
        torch.ones(4, device=d)
    ),
    "a freed graph": backward_twice,
    "a freed graph of a convolution": lambda d: [
        loss.backward()
        for loss in [nn.functional.conv2d(leaf(d, 1, 1, 4, 4), leaf(d, 1, 1, 2, 2)).sum()] * 2
    ],
    "double backward of a freed graph": double_backward_of_a_freed_graph,
    "a changed result": backward_after_inplace,
    "a result changed through a view": backward_after_inplace_through_a_view,
    "a changed parameter": backward_after_parameters_changed,
    "a change of one of many views": change_of_one_of_many_views,
    "a resized saved tensor": saved_tensor_resized,
    "backward of no graph": lambda d: torch.ones(1, device=d).backward(),
    "backward of many": grad_of(lambda x: (x * 2).backward()),
    "backward of the wrong size": lambda d: (leaf(d) * 2).backward(torch.ones(4, device=d)),
    "grad of an unused tensor": lambda d: torch.autograd.grad((leaf(d) * 2).sum(), leaf(d)),
    "grad of the wrong size": lambda d: setattr(leaf(d), "grad", torch.ones(4, device=d)),
    "grad of the wrong dtype": lambda d: setattr(leaf(d), "grad", torch.ones(3, device=d).double()),
    "grad that is no tensor": lambda d: setattr(leaf(d), "grad", 1.0),
    "requires_grad of a result": grad_of(lambda x: setattr(x * 2, "requires_grad", False)),
    "requires_grad_ of integers": lambda d: torch.ones(2, device=d).long().requires_grad_(),
    "deepcopy of a result": grad_of(lambda x: copy.deepcopy(x * 2)),
    "detach_ of a view": grad_of(lambda x: (x * 1)[0].detach_()),
    "resize_ of a leaf": grad_of(lambda x: x.resize_(5)),
    "resize_as_ of a leaf": grad_of(lambda x: x.resize_as_(torch.ones(2, device=x.device))),
    "set_ of a leaf": grad_of(lambda x: x.set_(torch.ones(2, device=x.device))),
    "data of another dtype": grad_of(lambda x: setattr(x, "data", 1)),
    "an inference tensor": lambda d: (
        torch.inference_mode()(lambda: torch.ones(2, device=d))().requires_grad_().mul(2)
    ),
    "a saved inference tensor": lambda d: (
        leaf(d, 2) * torch.inference_mode()(lambda: torch.ones(2, device=d))()
    ),
    "an in-place change of an inference tensor": lambda d: torch.inference_mode()(
        lambda: torch.ones(2, device=d)
    )().add_(1),
    "once_differentiable": lambda d: (
        torch.autograd.grad(Once.apply(x := leaf(d)).sum(), x, create_graph=True)[0]
        .sum()
        .backward()
    ),
    "too few gradients": lambda d: TooFew.apply(leaf(d), leaf(d)).sum().backward(),
    "a missing derivative": backward_through(lambda d: torch.gcd(leaf(d).long(), leaf(d).long())),
    "sgd of a result": grad_of(lambda x: torch.optim.SGD([x * 2], 0.1)),
    "a parameter of integers": lambda d: nn.Parameter(torch.ones(2, device=d).long()),
    "load_state_dict of other sizes": lambda d: nn.Linear(2, 2, device=d).load_state_dict(
        nn.Linear(2, 3).state_dict()
    ),
    "functional grad of many": lambda d: torch.func.grad(lambda x: x * 2)(leaf(d)),
    "vmap of other sizes": lambda d: torch.vmap(torch.add)(
        torch.ones(2, device=d), torch.ones(3, device=d)
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_refused_as_on_the_cpu(name):
    assert_same_refusal(MISTAKES[name])
