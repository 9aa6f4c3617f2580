"""Fifty steps of training give the same losses in every mode, random masks included."""

import pytest
import torch
from architectures import ARCHITECTURES, loss_of
from counting import DEVICE
from quick import quick_ones
from torch import nn
from torch.nn import functional as F
from twins import to, twins

from torch_tpu import _C

STEPS = 50
NAMES = ("mlp", "resnet", "unet", "gpt", "llama", "vit", "lstm", "vae", "dlrm")


def losses(name, mode, steps=STEPS):
    """The losses of a model's training; they are read at its end, so that nothing is cut there."""
    build, make_batch = ARCHITECTURES[name]
    with torch.tpu.set_eager_mode(mode):
        _, model = twins(build)
        batch = to(DEVICE, list(make_batch(torch.Generator().manual_seed(1))))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
        taken = []
        for _ in range(steps):
            optimizer.zero_grad()
            loss = loss_of(model(*batch))
            loss.backward()
            optimizer.step()
            taken.append(loss.detach())
        return torch.stack(taken).cpu()


@pytest.mark.parametrize("name", quick_ones(NAMES, "resnet", "gpt", "dlrm"))
def test_fifty_losses_agree_in_all_modes(name):
    strict = losses(name, "strict")
    assert strict[-1] < strict[0]
    for mode in ("debug", "fused"):
        torch.testing.assert_close(losses(name, mode), strict)


def test_losses_are_the_same_whether_programs_are_waited_for_or_not():
    waited = losses("mlp", "fused")
    _C.set_async_compile(True)
    torch.testing.assert_close(losses("mlp", "fused"), waited)


def draws(mode):
    """Masks and numbers, drawn among other ops."""
    with torch.tpu.set_eager_mode(mode):
        torch.manual_seed(3)
        x = torch.ones(500, device=DEVICE)
        first = F.dropout(x, 0.5)
        noise = torch.randn(7, device=DEVICE) * 2
        layer = nn.Dropout(0.1)
        masked = [layer(x) for _ in range(3)]
        return [first, noise, *masked, torch.randperm(50, device=DEVICE), x.bernoulli(0.3)]


@pytest.mark.parametrize("mode", ["debug", "fused"])
def test_random_ops_draw_what_they_draw_in_strict_mode(mode):
    for drawn, expected in zip(draws(mode), draws("strict"), strict=True):
        assert torch.equal(drawn.cpu(), expected.cpu())


def test_a_state_that_is_saved_between_recorded_draws_gives_the_same_again():
    torch.manual_seed(0)
    torch.rand(3, device=DEVICE)
    state = torch.tpu.get_rng_state()
    first = torch.rand(3, device=DEVICE)
    torch.tpu.set_rng_state(state)
    assert torch.equal(torch.rand(3, device=DEVICE), first)
