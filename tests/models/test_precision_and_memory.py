"""Mixed precision, gradient scaling and gradient checkpointing."""

import functools

import pytest
import torch
from architectures import GPT, ResNet, mlp
from torch import nn
from torch.utils.checkpoint import checkpoint
from twins import DEVICE, assert_same, gradients, state, to, twins


def _batch():
    generator = torch.Generator().manual_seed(1)
    return torch.randn(8, 12, generator=generator), torch.arange(8) % 5


@pytest.mark.parametrize("build", [mlp, ResNet, GPT])
def test_autocast_to_bf16_agrees_with_cpu_autocast(build):
    generator = torch.Generator().manual_seed(1)
    batch = {
        mlp: lambda: torch.randn(4, 12, generator=generator),
        ResNet: lambda: torch.randn(4, 3, 8, 8, generator=generator),
        GPT: lambda: torch.randint(0, 20, (2, 8), generator=generator),
    }[build]()
    models = twins(build)
    losses = []
    for model, device in zip(models, ("cpu", DEVICE), strict=True):
        with torch.autocast(device, dtype=torch.bfloat16):
            output = model(batch.to(device))
            loss = output.float().square().mean()
        assert output.dtype == torch.bfloat16
        loss.backward()
        losses.append(loss)
    # bf16 has 8 bits: the order of sums alone makes a difference of this size.
    assert_same(losses[1], losses[0], rtol=2e-2, atol=1e-3)
    scale = max(gradient.abs().max().item() for gradient in gradients(models[0]))
    for got, expected in zip(gradients(models[1]), gradients(models[0]), strict=True):
        assert got.dtype == torch.float32
        torch.testing.assert_close(got.cpu(), expected, rtol=0.1, atol=0.02 * scale)


def test_autocast_chooses_the_dtype_by_the_op():
    x = torch.randn(4, 4, device=DEVICE)
    with torch.autocast(DEVICE):
        assert (x @ x).dtype == torch.bfloat16
        assert (x + x).dtype == torch.float32
        assert torch.softmax(x @ x, -1).dtype == torch.float32
        with torch.autocast(DEVICE, enabled=False):
            assert (x @ x).dtype == torch.float32


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.AdamW])
def test_grad_scaler_skips_a_step_with_infinities_and_halves_its_scale(kind, fused):
    models, scales = twins(mlp), []
    for model, device in zip(models, ("cpu", DEVICE), strict=True):
        optimizer = kind(model.parameters(), lr=0.01, fused=fused)
        scaler = torch.amp.GradScaler(device, init_scale=64.0, growth_interval=2)
        inputs, classes = to(device, _batch())
        seen = []
        for step in range(5):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(inputs), classes)
            scaler.scale(loss * (float("inf") if step == 2 else 1.0)).backward()
            if not fused:
                scaler.unscale_(optimizer)
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            seen.append(scaler.get_scale())
        scales.append(seen)
    assert scales[1] == scales[0] == [64.0, 128.0, 64.0, 64.0, 128.0]
    assert_same(state(models[1]), state(models[0]), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpointing_gives_the_gradients_of_the_plain_run_with_dropout(reentrant):
    model = nn.Sequential(nn.Linear(12, 16), nn.Dropout(0.5), nn.GELU(), nn.Linear(16, 5))
    model.to(DEVICE)
    inputs = _batch()[0].to(DEVICE).requires_grad_()
    results = []
    for recompute in (False, True):
        torch.manual_seed(11)
        model.zero_grad()
        inputs.grad = None
        run = functools.partial(checkpoint, model, use_reentrant=reentrant) if recompute else model
        output = run(inputs)
        output.square().sum().backward()
        results.append([output.detach(), inputs.grad.clone(), *gradients(model)])
    for plain, recomputed in zip(*results, strict=True):
        torch.testing.assert_close(recomputed, plain)


def test_checkpointing_agrees_with_cpu():
    models = twins(mlp)
    for model, device in zip(models, ("cpu", DEVICE), strict=True):
        inputs = _batch()[0].to(device)
        hidden = checkpoint(model[:3], inputs, use_reentrant=False)
        model[3:](hidden).square().sum().backward()
    assert_same(gradients(models[1]), gradients(models[0]), rtol=1e-4, atol=1e-5)
