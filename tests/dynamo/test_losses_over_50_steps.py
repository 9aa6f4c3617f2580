"""Models that are trained compiled lose what they lose in eager mode, step for step."""

import copy

import pytest
import torch
from architectures import ARCHITECTURES, loss_of
from compiling import compiled
from quick import quick_ones
from twins import DEVICE, to

STEPS = 50
# XLA orders the sums of a whole graph otherwise than those of single ops, so each step rounds
# otherwise and starts from weights that were. Weights that are all one rounding off in the first
# step move these losses by up to 12 roundings in 50 steps; compiled ones were 14 off at most (a
# U-Net whose loss falls to a five-hundredth). A wrong factor or epsilon moves them by thousands.
ROUNDINGS = 64
TOLERANCE = {"rtol": ROUNDINGS * torch.finfo(torch.float32).eps, "atol": 0.0}
# Recurrent layers break the graph under every backend, so that nothing of theirs is compiled.
NAMES = [name for name in ARCHITECTURES if name not in ("lstm", "gru")]


def _losses(model, call, make_batch):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    generator, losses = torch.Generator().manual_seed(1), []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of(call(*to(DEVICE, list(make_batch(generator)))))
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses).cpu()


@pytest.mark.parametrize("name", quick_ones(NAMES, "gpt"))
def test_compiled_losses_are_those_of_eager_mode_to_64_roundings(name):
    build, make_batch = ARCHITECTURES[name]
    torch.manual_seed(0)
    model = build().to(DEVICE)
    twin = copy.deepcopy(model)
    call = compiled(twin)
    expected = _losses(model, model, make_batch)
    assert expected.unique().numel() > STEPS // 2, "it doesn't train"
    torch.testing.assert_close(_losses(twin, call, make_batch), expected, **TOLERANCE)
