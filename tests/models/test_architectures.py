"""Every kind of model trains on the device as it does on the CPU."""

import pytest
import torch
from architectures import ARCHITECTURES, loss_of
from twins import DEVICE, assert_same, gradients, state, to, twins


def _step(model, batch, optimizer):
    optimizer.zero_grad()
    output = model(*batch)
    loss = loss_of(output)
    loss.backward()
    return output.detach(), loss.detach()


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_forward_gradients_and_three_steps_agree_with_cpu(name):
    build, make_batch = ARCHITECTURES[name]
    models = twins(build)
    batch = make_batch(torch.Generator().manual_seed(1))
    batches = batch, to(DEVICE, list(batch))
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9) for model in models]
    for _ in range(3):
        expected, got = (_step(*each) for each in zip(models, batches, optimizers, strict=True))
        assert_same(got, expected, rtol=1e-4, atol=1e-5)
        assert_same(gradients(models[1]), gradients(models[0]), rtol=1e-3, atol=1e-5)
        for optimizer in optimizers:
            optimizer.step()
    assert_same(state(models[1]), state(models[0]), rtol=1e-3, atol=1e-5)
