"""Fused optimizer steps and GradScaler beside CPU PyTorch."""

import pytest
import torch
from shadow import Shadow

OPTIMIZERS = {
    "adam": (torch.optim.Adam, {"weight_decay": 0.1}),
    "adam_amsgrad": (torch.optim.Adam, {"amsgrad": True, "maximize": True}),
    "adamw": (torch.optim.AdamW, {"weight_decay": 0.1}),
    "adamw_amsgrad": (torch.optim.AdamW, {"amsgrad": True}),
    "sgd": (torch.optim.SGD, {"weight_decay": 0.1, "maximize": True}),
    "sgd_momentum": (torch.optim.SGD, {"momentum": 0.9, "dampening": 0.2}),
    "sgd_nesterov": (torch.optim.SGD, {"momentum": 0.9, "nesterov": True}),
    "adagrad": (torch.optim.Adagrad, {"lr_decay": 0.1, "weight_decay": 0.1}),
}


def _steps(name, dtype, lr, scale=None, found_inf=None, steps=2):
    make, options = OPTIMIZERS[name]
    params = [torch.randn(shape, dtype=dtype, requires_grad=True) for shape in ((3, 4), (), (0,))]
    optimizer = make(params, lr=lr, fused=True, **options)
    optimizer.grad_scale, optimizer.found_inf = scale, found_inf
    narrow = {"rtol": 2e-2, "atol": 2e-2} if dtype == torch.bfloat16 else {}
    with Shadow(**narrow) as shadow:
        for _ in range(steps):
            for param in params:
                param.grad = torch.randn_like(param)
            optimizer.step()
    fused = [count for op, count in shadow.seen.items() if "_fused_" in op]
    assert fused == [steps]


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_step(name):
    _steps(name, torch.float32, 0.01)


@pytest.mark.parametrize("name", ["adam", "adamw", "sgd_momentum", "adagrad"])
def test_step_where_the_rate_is_a_tensor_and_gradients_are_scaled(name):
    scale = torch.tensor(8.0)
    _steps(name, torch.float32, torch.tensor(0.01), scale, torch.tensor(0.0), steps=1)
    _steps(name, torch.bfloat16, 0.01, scale, torch.tensor(1.0), steps=1)


def test_first_steps_of_adam_keep_their_precision():
    _steps("adam", torch.float64, 0.01)


@pytest.mark.parametrize("bad", [None, float("inf"), float("nan")])
def test_unscale(bad):
    grads = [torch.randn(3), torch.randn(2, 2), torch.randn(())]
    if bad is not None:
        grads[1][0, 1] = bad
    found_inf, inv_scale = torch.tensor(0.0), torch.tensor(0.5)
    with Shadow() as shadow:
        torch._amp_foreach_non_finite_check_and_unscale_(grads, found_inf, inv_scale)
    assert found_inf.item() == (bad is not None)
    assert list(shadow.seen.values()) == [1]


@pytest.mark.parametrize("found", [0.0, 1.0])
@pytest.mark.parametrize("successes", [0, 2])
@pytest.mark.parametrize("scale", [1024.0, 3e38])
def test_update_scale(found, successes, scale):
    args = torch.tensor(scale), torch.tensor(successes, dtype=torch.int32), torch.tensor(found)
    with Shadow() as shadow:
        torch._amp_update_scale_(*args, 2.0, 0.5, 3)
    assert list(shadow.seen.values()) == [1]
