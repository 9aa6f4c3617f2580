"""Optimizers: parameters and every state agree with the CPU after twenty steps, in each form."""

import pytest
import torch
from architectures import mlp
from torch import nn
from twins import DEVICE, assert_same, gradients, state, to, twins

STEPS = 20
FORMS = {"loop": {"foreach": False}, "foreach": {"foreach": True}, "fused": {"fused": True}}
OPTIMIZERS = {
    torch.optim.SGD: [{"lr": 0.05}, {"lr": 0.05, "momentum": 0.9, "nesterov": True}],
    torch.optim.Adam: [{"lr": 0.01}, {"lr": 0.01, "weight_decay": 0.1, "amsgrad": True}],
    torch.optim.AdamW: [{"lr": 0.01}, {"lr": 0.01, "maximize": True}],
    torch.optim.Adagrad: [{"lr": 0.05, "lr_decay": 0.1}],
    torch.optim.RMSprop: [{"lr": 0.01, "momentum": 0.5, "centered": True}],
    torch.optim.Adadelta: [{}],
    torch.optim.Adamax: [{"lr": 0.01}],
    torch.optim.NAdam: [{"lr": 0.01}],
    torch.optim.RAdam: [{"lr": 0.01}],
    torch.optim.ASGD: [{"lr": 0.05}],
    torch.optim.Rprop: [{"lr": 0.001, "step_sizes": (1e-6, 0.01)}],
}
# A step that follows a gradient's sign alone jumps where rounding turns it: in double precision.
SIGN_ONLY = (torch.optim.Rprop,)
FUSED = (torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW)
CASES = [
    pytest.param(kind, {**options, **FORMS[form]}, id=f"{kind.__name__}-{form}-{number}")
    for kind, variants in OPTIMIZERS.items()
    for number, options in enumerate(variants)
    for form in FORMS
    if form != "fused" or kind in FUSED
]


def _batch(seed=1):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(8, 12, generator=generator), torch.randint(0, 5, (8,), generator=generator)


def _train(model, optimizer, batch, steps=STEPS):
    inputs, classes = batch
    for _ in range(steps):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), classes).backward()
        optimizer.step()


def _states(optimizer):
    return [list(each.values()) for each in optimizer.state.values()]


@pytest.mark.parametrize(("kind", "options"), CASES)
def test_parameters_and_states_agree_after_twenty_steps(kind, options):
    dtype = torch.float64 if kind in SIGN_ONLY else torch.float32
    models = twins(lambda: mlp().to(dtype))
    optimizers = [kind(model.parameters(), **options) for model in models]
    inputs, classes = _batch()
    for model, optimizer, device in zip(models, optimizers, ("cpu", DEVICE), strict=True):
        _train(model, optimizer, to(device, inputs.to(dtype), classes))
    assert_same(state(models[1]), state(models[0]), rtol=1e-4, atol=1e-5)
    expected, got = (_states(optimizer) for optimizer in optimizers)
    assert len(got) == len(expected)
    for have, want in zip(got, expected, strict=True):
        for each, other in zip(have, want, strict=True):
            torch.testing.assert_close(
                torch.as_tensor(each).cpu(), torch.as_tensor(other), rtol=1e-4, atol=1e-6
            )


def test_a_scheduled_learning_rate_takes_effect():
    models = twins(mlp)
    for model, device in zip(models, ("cpu", DEVICE), strict=True):
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.02)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 5)
        for _ in range(5):
            _train(model, optimizer, to(device, _batch()), steps=1)
            schedule.step()
    assert_same(state(models[1]), state(models[0]), rtol=1e-4, atol=1e-5)


def test_a_saved_optimizer_continues_where_it_stopped():
    model, device_model = twins(mlp)
    first = torch.optim.Adam(device_model.parameters(), lr=0.01)
    _train(device_model, first, to(DEVICE, _batch()), steps=2)
    second = torch.optim.Adam(device_model.parameters(), lr=0.5)
    second.load_state_dict(first.state_dict())
    _train(device_model, second, to(DEVICE, _batch()), steps=2)
    _train(model, torch.optim.Adam(model.parameters(), lr=0.01), _batch(), steps=4)
    assert_same(state(device_model), state(model), rtol=1e-4, atol=1e-5)


CLIPS = {
    "norm": lambda ps: nn.utils.clip_grad_norm_(ps, 0.1),
    "norm of order 1": lambda ps: nn.utils.clip_grad_norm_(ps, 0.1, norm_type=1.0),
    "largest": lambda ps: nn.utils.clip_grad_norm_(ps, 0.01, norm_type=float("inf")),
    "norm, one by one": lambda ps: nn.utils.clip_grad_norm_(ps, 0.1, foreach=False),
    "value": lambda ps: nn.utils.clip_grad_value_(ps, 0.02),
}


@pytest.mark.parametrize("name", CLIPS)
def test_gradients_are_clipped_as_on_the_cpu(name):
    models, norms = twins(mlp), []
    for model, device in zip(models, ("cpu", DEVICE), strict=True):
        inputs, classes = to(device, _batch())
        nn.functional.cross_entropy(model(inputs), classes).backward()
        norms.append(CLIPS[name](list(model.parameters())))
    assert_same(norms[1], norms[0])
    assert_same(gradients(models[1]), gradients(models[0]), rtol=1e-4, atol=1e-6)
