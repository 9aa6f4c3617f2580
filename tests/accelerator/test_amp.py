"""Mixed precision through torch's names and through torch.tpu.amp."""

import pytest
import torch


@pytest.mark.parametrize(
    "context",
    [lambda: torch.autocast("tpu"), lambda: torch.tpu.amp.autocast()],
    ids=["torch", "torch.tpu"],
)
def test_autocast_is_bfloat16(context):
    x = torch.ones(4, 4, device="tpu")
    with context():
        assert torch.is_autocast_enabled("tpu")
        assert (x @ x).dtype == torch.bfloat16
        assert (x @ x).softmax(0).dtype == torch.float32
    assert (x @ x).dtype == torch.float32


def test_autocast_to_float16():
    x = torch.ones(4, 4, device="tpu")
    with torch.autocast("tpu", dtype=torch.float16):
        assert (x @ x).dtype == torch.float16


def test_grad_scaler_steps_and_skips():
    layer = torch.nn.Linear(4, 1).tpu()
    optimizer = torch.optim.SGD(layer.parameters(), 0.1)
    scaler = torch.tpu.amp.GradScaler(init_scale=8.0)
    before = layer.weight.detach().cpu()
    scaler.scale(layer(torch.ones(2, 4, device="tpu")).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    after = layer.weight.detach().cpu()
    torch.testing.assert_close(after, before - 0.2)
    layer.weight.grad.fill_(float("inf"))
    scaler.scale(layer.weight.sum())
    scaler.step(optimizer)
    scaler.update()
    assert torch.equal(layer.weight.detach().cpu(), after)
    assert scaler.get_scale() == 4.0
