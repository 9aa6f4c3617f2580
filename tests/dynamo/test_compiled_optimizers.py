"""Optimizer steps that are compiled: parameters and states are those of eager steps on the CPU."""

import copy

import pytest
import torch
from architectures import mlp
from compiling import compiled, graphs, randn
from quick import quick_ones
from torch import nn
from torch.func import functional_call, grad_and_value
from torch.nn import functional as F
from twins import DEVICE, assert_same, twins

from torch_tpu import _C

STEPS = 4
OPTIMIZERS = {
    "sgd": (torch.optim.SGD, {"lr": 0.05, "momentum": 0.9, "nesterov": True}),
    "adam": (torch.optim.Adam, {"lr": 0.01, "weight_decay": 0.1, "amsgrad": True}),
    "adamw": (torch.optim.AdamW, {"lr": 0.01}),
    "adamw, one by one": (torch.optim.AdamW, {"lr": 0.01, "foreach": False}),
    "adamw, fused": (torch.optim.AdamW, {"lr": 0.01, "fused": True}),
    "sgd, fused": (torch.optim.SGD, {"lr": 0.05, "momentum": 0.9, "fused": True}),
    "adagrad": (torch.optim.Adagrad, {"lr": 0.05, "lr_decay": 0.1}),
    "rmsprop": (torch.optim.RMSprop, {"lr": 0.01, "momentum": 0.5, "centered": True}),
    "adadelta": (torch.optim.Adadelta, {}),
    "adamax": (torch.optim.Adamax, {"lr": 0.01}),
    "nadam": (torch.optim.NAdam, {"lr": 0.01}),
    "radam": (torch.optim.RAdam, {"lr": 0.01}),
    "asgd": (torch.optim.ASGD, {"lr": 0.05}),
    "adafactor": (torch.optim.Adafactor, {"lr": 0.01}),
}
# The steps themselves ask for a graph break, under every backend.
BREAKS = {"fullgraph": False}


def _set_gradients(model, number):
    for place, parameter in enumerate(model.parameters()):
        gradient = randn(*parameter.shape, seed=10 * number + place)
        parameter.grad = gradient.to(parameter.device)


def _states(optimizer):
    return [
        [value.cpu() if isinstance(value, torch.Tensor) else value for value in state.values()]
        for state in optimizer.state.values()
    ]


def _both(kind, options):
    models = twins(mlp)
    return models, [kind(model.parameters(), **copy.copy(options)) for model in models]


# Steps of lists and of one parameter at a time, fused ones, states that are sums and moments.
QUICK = ("sgd", "adam", "adamw, one by one", "adamw, fused", "adagrad")


@pytest.mark.parametrize("name", quick_ones(OPTIMIZERS, *QUICK))
def test_parameters_and_states_after_compiled_steps(name):
    models, (host, device) = _both(*OPTIMIZERS[name])
    step = compiled(device.step, **BREAKS)
    for number in range(STEPS):
        for model in models:
            _set_gradients(model, number)
        host.step()
        step()
    assert_same(list(models[1].parameters()), list(models[0].parameters()))
    torch.testing.assert_close(_states(device), _states(host))


@pytest.mark.parametrize("name", ["sgd", "adam", "adamw, one by one"])
def test_later_steps_do_not_recompile(name):
    models, (_, device) = _both(*OPTIMIZERS[name])
    step = compiled(device.step, **BREAKS)
    for number in range(2):
        _set_gradients(models[1], number)
        step()
    with torch.compiler.set_stance("fail_on_recompile"):
        for number in range(2):
            _set_gradients(models[1], number)
            step()


def test_a_new_optimizer_counts_its_steps_on_the_device():
    models, (_, device) = _both(*OPTIMIZERS["adam"])
    _set_gradients(models[1], 0)
    compiled(device.step, **BREAKS)()
    assert {state["step"].device.type for state in device.state.values()} == {DEVICE}


def test_an_optimizer_that_has_stepped_eagerly_is_compiled_later():
    models, (host, device) = _both(*OPTIMIZERS["adamw"])
    step = compiled(device.step, **BREAKS)
    for number in range(STEPS):
        for model in models:
            _set_gradients(model, number)
        host.step()
        (device.step if number < 2 else step)()
    assert_same(list(models[1].parameters()), list(models[0].parameters()))


@pytest.mark.parametrize("device_of_rate", ["cpu", DEVICE])
def test_a_scheduled_rate_that_is_a_tensor_does_not_recompile(device_of_rate):
    models = twins(mlp)
    rates = torch.tensor(0.1), torch.tensor(0.1).to(device_of_rate)
    optimizers = [
        torch.optim.SGD(model.parameters(), lr=rate)
        for model, rate in zip(models, rates, strict=True)
    ]
    schedulers = [torch.optim.lr_scheduler.ExponentialLR(each, 0.5) for each in optimizers]
    step = compiled(optimizers[1].step, **BREAKS)
    for number in range(STEPS):
        for model in models:
            _set_gradients(model, number)
        optimizers[0].step()
        with torch.compiler.set_stance("default" if number < 1 else "fail_on_recompile"):
            step()
        for scheduler in schedulers:
            scheduler.step()
    assert_same(list(models[1].parameters()), list(models[0].parameters()))


def test_parameter_groups_keep_their_rates():
    models = twins(mlp)
    optimizers = [
        torch.optim.SGD([{"params": model[0].parameters(), "lr": 0.5}, *_rest(model)], lr=0.01)
        for model in models
    ]
    step = compiled(optimizers[1].step, **BREAKS)
    for number in range(2):
        for model in models:
            _set_gradients(model, number)
        optimizers[0].step()
        step()
    assert_same(list(models[1].parameters()), list(models[0].parameters()))


def _rest(model):
    return [{"params": model[2:].parameters()}]


def test_a_parameter_without_gradient_is_left_alone():
    models, (host, device) = _both(*OPTIMIZERS["adam"])
    for model in models:
        _set_gradients(model, 0)
        model[0].weight.grad = None
    before = models[1][0].weight.detach().cpu()
    host.step()
    compiled(device.step, **BREAKS)()
    assert_same(models[1][0].weight.detach(), before)
    assert_same(list(models[1].parameters()), list(models[0].parameters()))


def test_gradients_are_clipped_inside():
    def clip(model):
        return nn.utils.clip_grad_norm_(model.parameters(), 0.5)

    models = twins(mlp)
    for model in models:
        _set_gradients(model, 1)
    norms = [clip(models[0]), compiled(clip, **BREAKS)(models[1])]
    torch.testing.assert_close(norms[1].cpu(), norms[0])
    gradients = [[p.grad for p in model.parameters()] for model in models]
    assert_same(gradients[1], gradients[0])


def test_a_whole_step_of_training_in_one_function():
    def step(model, optimizer, x):
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    models, optimizers = _both(*OPTIMIZERS["adam"])
    run, x = compiled(step, **BREAKS), randn(4, 12)
    for _ in range(STEPS):
        expected = step(models[0], optimizers[0], x)
        assert_same(run(models[1], optimizers[1], x.to(DEVICE)), expected)
    assert graphs() >= 2


FOREACH = {
    "add": lambda xs: torch._foreach_add(xs, 1.5),
    "mul_": lambda xs: torch._foreach_mul_(xs, 2),
    "lerp_": lambda xs: torch._foreach_lerp_(xs, [x * 2 for x in xs], 0.25),
    "addcdiv_": lambda xs: torch._foreach_addcdiv_(xs, xs, [x.abs() + 1 for x in xs], -0.5),
    "norm": lambda xs: torch._foreach_norm(xs),
    "sqrt": lambda xs: torch._foreach_sqrt([x.abs() for x in xs]),
    "copy_": lambda xs: torch._foreach_copy_(xs, [x + 1 for x in xs]),
}


@pytest.mark.parametrize("name", FOREACH)
def test_foreach_functions(name):
    def function(xs):
        results = FOREACH[name](xs)
        return [x + 0 for x in (results if results is not None else xs)], xs

    def inputs(device):
        return [randn(3, 4, device=device), randn(5, seed=2, device=device)]

    assert_same(compiled(function)(inputs(DEVICE)), function(inputs("cpu")))


def test_a_functional_step_of_training_is_one_program():
    def step(model, parameters, x, y):
        def loss_of(parameters):
            return F.mse_loss(functional_call(model, parameters, (x,)), y)

        gradients, loss = grad_and_value(loss_of)(parameters)
        for name, each in parameters.items():
            each.sub_(0.1 * gradients[name])
        return loss

    models = twins(lambda: nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 1)))
    x, both = randn(32, 8), []
    for model, device, each in zip(models, ("cpu", DEVICE), (step, compiled(step)), strict=True):
        parameters = {name: each.detach().clone() for name, each in model.named_parameters()}
        inputs = x.to(device), x.sum(1, keepdim=True).to(device)
        losses = [each(model, parameters, *inputs) for _ in range(3)]
        before = _C.counters()["executions"]
        losses.append(each(model, parameters, *inputs))
        assert _C.counters()["executions"] - before == (device == DEVICE)
        both.append([*losses, *parameters.values()])
    assert_same(both[1], both[0])
