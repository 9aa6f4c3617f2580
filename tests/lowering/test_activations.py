"""Activation functions and their gradients beside CPU PyTorch."""

import pytest
import torch
import torch.nn.functional as F
from shadow import Shadow, run_samples
from torch.testing._internal.common_methods_invocations import op_db

NAMES = {
    f"nn.functional.{name}"
    for name in (
        "celu", "elu", "gelu", "glu", "hardshrink", "hardsigmoid", "hardswish", "hardtanh",
        "leaky_relu", "logsigmoid", "mish", "prelu", "relu", "silu", "softplus", "softshrink",
        "threshold",
    )
}  # fmt: skip
OPS = [op for op in op_db if op.name in NAMES and op.variant_test_name != "complex"]
EDGES = [float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 3.0, -3.0, 0.5, -0.5, 1.0, -1.0, 50]


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_samples(op):
    assert run_samples(op, torch.float32, grad=True, limit=2).seen


def test_bfloat16():
    with Shadow() as shadow:
        x = torch.randn(4, 6, dtype=torch.bfloat16, requires_grad=True)
        for function in (F.gelu, F.silu, F.mish, F.logsigmoid, F.glu, F.elu, F.hardswish):
            function(x).sum().backward()
    assert "aten.glu_backward.default" in shadow.seen


@pytest.mark.parametrize(
    "function",
    [F.relu, F.hardtanh, F.hardsigmoid, F.hardshrink, F.softshrink, F.leaky_relu]
    + [F.elu, F.softplus, F.logsigmoid],
    ids=lambda function: function.__name__,
)
def test_edges(function):
    x = torch.tensor(EDGES, requires_grad=True)
    with Shadow():
        function(x).backward(torch.ones_like(x))


def test_options():
    x = torch.randn(5, requires_grad=True)
    with Shadow() as shadow:
        F.gelu(x, approximate="tanh").sum().backward()
        F.elu_(x * 1, alpha=0.5).sum().backward()
        F.leaky_relu_(x * 1, 0.2).sum().backward()
        noise = torch.rand(5)
        for training in (True, False):
            torch.ops.aten.rrelu_with_noise_backward(x, x, noise, 0.1, 0.3, training, False)
    assert shadow.seen["aten.rrelu_with_noise_backward.default"] == 2


def test_forward_mode_of_glu():
    with Shadow() as shadow, torch.autograd.forward_ad.dual_level():
        x = torch.randn(3, 4)
        torch.ops.aten.glu_jvp(F.glu(x), x, x.cos(), -1)
        grad = torch.randn(3, 2)
        grad_x = torch.ops.aten.glu_backward(grad, x, -1)
        torch.ops.aten.glu_backward_jvp(grad_x, grad, x, grad.cos(), x.cos(), -1)
    assert {f"aten.glu{name}.default" for name in ("_jvp", "_backward_jvp")} <= set(shadow.seen)
