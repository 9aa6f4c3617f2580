"""torch.func inside compiled functions, and compiled functions inside torch.func."""

import pytest
import torch
from architectures import mlp
from compiling import assert_compiles, compiled, randn
from torch import func
from torch.nn import functional as F
from transforms import TRANSFORMS, per_sample_gradients
from twins import DEVICE, assert_same, to, twins

X, W = randn(3, 4), randn(4, 2, seed=2)


# It traces its function itself, which Dynamo refuses under every backend.
UNTRACEABLE = "linearize"


@pytest.mark.parametrize("name", [name for name in TRANSFORMS if name != UNTRACEABLE])
def test_transforms_inside(name):
    assert_compiles(TRANSFORMS[name], X, W, calls=1)


def test_per_sample_gradients_through_functional_call():
    results, batch = [], randn(6, 12)
    calls = per_sample_gradients, compiled(per_sample_gradients)
    for call, model, inputs in zip(calls, twins(mlp), (batch, batch.to(DEVICE)), strict=True):
        weights = {name: p.detach() for name, p in model.named_parameters()}
        results.append(list(call(model, weights, inputs).values()))
    assert_same(results[1], results[0])


def test_an_ensemble_of_stacked_models():
    models = [twins(mlp, seed)[0] for seed in range(3)]
    weights, buffers = func.stack_module_state(models)
    skeleton = mlp().to("meta")

    def run(weights, buffers, x):
        def one(weights, buffers, x):
            return func.functional_call(skeleton, (weights, buffers), (x,))

        return func.vmap(one, (0, 0, None))(weights, buffers, x)

    x = randn(4, 12)
    got = compiled(run)(*to(DEVICE, dict(weights), dict(buffers), x))
    assert_same(got.detach(), run(weights, buffers, x).detach())


def test_gradients_by_torch_autograd_inside():
    def function(x):
        x = x.detach().requires_grad_()
        (gradient,) = torch.autograd.grad((x.sin() * x).sum(), x)
        return gradient

    assert_compiles(function, X, fullgraph=False)


def test_gradients_of_a_compiled_function_by_torch_func():
    run = compiled(lambda x: F.gelu(x).sum(), fullgraph=False)
    assert_same(func.grad(run)(X.to(DEVICE)), func.grad(lambda x: F.gelu(x).sum())(X))


def test_double_backward_raises_as_torch_says():
    x = X.to(DEVICE).requires_grad_()
    (gradient,) = torch.autograd.grad(compiled(lambda x: x.sin().sum())(x), x, create_graph=True)
    with pytest.raises(RuntimeError, match="does not currently support double backward"):
        gradient.sum().backward()
