"""Activation checkpointing in compiled functions: the same numbers, dropout's included."""

import functools

import pytest
import torch
from compiling import assert_trains, compiled, randn
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)
from twins import DEVICE, twins

X, W = randn(4, 4).requires_grad_(), randn(4, 4, seed=2).requires_grad_()


def _block(x, w):
    return (x @ w).sin().cos() @ w


def _random_block(x, w):
    return F.dropout((x @ w).relu(), 0.5).sin() + F.dropout(x, 0.2)


def _keep_products(_, op, *args, **kwargs):
    products = op is torch.ops.aten.mm.default
    return CheckpointPolicy.MUST_SAVE if products else CheckpointPolicy.PREFER_RECOMPUTE


FORMS = {
    "all recomputed": {"use_reentrant": False},
    "selective": {
        "use_reentrant": False,
        "context_fn": functools.partial(create_selective_checkpoint_contexts, _keep_products),
    },
    "reentrant": {"use_reentrant": True},
}


def _checkpointed(block, **options):
    return lambda x, w: checkpoint(block, x, w, **options)


@pytest.mark.parametrize("name", FORMS)
def test_gradients_are_the_cpus(name):
    assert_trains(_checkpointed(_block, **FORMS[name]), X, W)


def _train(function, calls=2):
    """Outputs and gradients of several calls from one seed."""
    results = []
    torch.manual_seed(7)
    for _ in range(calls):
        x, w = (each.detach().to(DEVICE).requires_grad_() for each in (X, W))
        y = function(x, w)
        y.sum().backward()
        results.append((y.detach(), x.grad, w.grad))
    return results


@pytest.mark.parametrize("name", FORMS)
def test_recomputed_dropout_draws_the_forwards_numbers(name):
    function = _checkpointed(_random_block, **FORMS[name])
    expected, got = _train(function), _train(compiled(function))
    torch.testing.assert_close(got, expected)
    assert not torch.equal(got[0][0], got[1][0])


def test_recomputed_draws_leave_the_generator_as_eager_does():
    function = _checkpointed(_random_block, use_reentrant=False)
    following = []
    for each in (function, compiled(function)):
        _train(each)
        following.append(torch.rand(4, device=DEVICE))
    assert torch.equal(*following)


def test_two_forward_passes_before_their_backward_passes():
    def run(function):
        torch.manual_seed(2)
        inputs = [X.detach().to(DEVICE).requires_grad_() for _ in range(2)]
        outputs = [function(x, W.detach().to(DEVICE)) for x in inputs]
        for y in reversed(outputs):
            y.sum().backward()
        return [x.grad for x in inputs]

    function = _checkpointed(_random_block, use_reentrant=False)
    torch.testing.assert_close(run(compiled(function)), run(function))


class Blocks(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(6, 6), nn.GELU(), nn.Dropout(0.2)) for _ in range(3)
        )

    def forward(self, x):
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False)
        return x


def test_a_model_of_checkpointed_blocks():
    x, gradients = randn(4, 6, device=DEVICE), []
    for compile in (lambda model: model, compiled):
        model = twins(Blocks)[1]
        torch.manual_seed(1)
        compile(model)(x).square().sum().backward()
        gradients.append([p.grad for p in model.parameters()])
    torch.testing.assert_close(gradients[1], gradients[0])


def test_under_autocast():
    function = _checkpointed(_block, use_reentrant=False)

    def run(call):
        x, w = (each.detach().to(DEVICE).requires_grad_() for each in (X, W))
        with torch.autocast(DEVICE):
            y = call(x, w)
        y.float().sum().backward()
        # A program leaves the sum of two gradients in float32; eager mode rounds it.
        return y.detach(), x.grad, w.grad.bfloat16()

    torch.testing.assert_close(run(compiled(function)), run(function))
