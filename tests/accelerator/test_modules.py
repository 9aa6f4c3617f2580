"""Moving a module keeps its parameters the objects they were, as on CUDA."""

import weakref

import torch
from torch import nn


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding(5, 3), nn.Linear(3, 5)
        self.head.weight = self.embed.weight
        self.register_buffer("scale", torch.ones(1))


def test_tied_weights_and_optimizers_stay_connected():
    model = Tied()
    parameters = list(model.parameters())
    parameters[0].tag = "kept"
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    model.to("tpu")
    assert all(a is b for a, b in zip(parameters, model.parameters(), strict=True))
    assert model.head.weight is model.embed.weight
    assert model.embed.weight.tag == "kept" and type(model.embed.weight) is nn.Parameter
    assert model.scale.is_tpu
    assert all(each.is_tpu for each in optimizer.param_groups[0]["params"])
    model.cpu()
    assert all(a is b for a, b in zip(parameters, model.parameters(), strict=True))
    assert {each.device.type for each in parameters} == {"cpu"}


def test_gradients_hooks_and_flags_move_along():
    layer = nn.Linear(2, 2)
    layer.bias.requires_grad_(False)
    seen = []
    layer.weight.register_hook(lambda gradient: seen.append(gradient.device.type))
    layer(torch.ones(1, 2)).sum().backward()
    layer.tpu()
    assert layer.weight.grad.is_tpu and torch.equal(layer.weight.grad.cpu(), torch.ones(2, 2))
    assert not layer.bias.requires_grad and layer.weight.is_leaf
    layer(torch.ones(1, 2, device="tpu")).sum().backward()
    assert seen == ["cpu", "tpu"]
    assert torch.equal(layer.weight.grad.cpu(), torch.full((2, 2), 2.0))


def test_a_weak_reference_forbids_swapping_but_not_sharing():
    model = Tied()
    reference = weakref.ref(model.embed.weight)
    model.to("tpu")
    assert model.head.weight is model.embed.weight and model.embed.weight.is_tpu
    assert reference() is None


def test_recurrent_modules():
    lstm = nn.LSTM(2, 2)
    parameters = list(lstm.parameters())
    lstm.to("tpu")
    assert all(a is b for a, b in zip(parameters, lstm.parameters(), strict=True))
    assert all(weight.is_tpu for weight in lstm._flat_weights)


def test_other_devices_behave_as_before():
    model = Tied()
    weight = model.embed.weight
    model.half()
    assert model.embed.weight is weight and weight.dtype == torch.float16
    model.to("meta")
    assert model.embed.weight is not weight and model.embed.weight is not model.head.weight


def test_state_dicts_load_across_devices():
    source, target = Tied(), Tied().to("tpu")
    target.load_state_dict(source.state_dict())
    assert torch.equal(target.head.bias.detach().cpu(), source.head.bias.detach())
    source.load_state_dict(target.state_dict())
