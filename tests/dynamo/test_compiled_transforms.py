"""torch.func inside compiled functions, and compiled functions inside torch.func."""

import pytest
import torch
from architectures import mlp
from compiling import assert_compiles, compiled, randn
from torch import func
from torch.nn import functional as F
from twins import DEVICE, assert_same, to, twins

X, W = randn(3, 4), randn(4, 2, seed=2)


def _energy(x, w):
    return (torch.tanh(x @ w) * torch.softmax(x, -1).sum()).square().mean()


TRANSFORMS = {
    "grad": lambda x, w: func.grad(_energy, argnums=(0, 1))(x, w),
    "grad and value": lambda x, w: func.grad_and_value(_energy)(x, w),
    "grad of grad": lambda x, w: func.grad(lambda a: func.grad(_energy)(a, w).sin().sum())(x),
    "vjp": lambda x, w: func.vjp(_energy, x, w)[1](torch.ones((), device=x.device)),
    "jvp": lambda x, w: func.jvp(_energy, (x, w), (torch.ones_like(x), w)),
    "jacrev": lambda x, w: func.jacrev(lambda a: torch.sin(a @ w))(x),
    "jacfwd": lambda x, w: func.jacfwd(lambda a: torch.sin(a @ w))(x),
    "hessian": lambda x, w: func.hessian(lambda a: _energy(a, w))(x),
    "vmap": lambda x, w: func.vmap(lambda row: torch.softmax(row @ w, -1).max())(x),
    "vmap of grad": lambda x, w: func.vmap(func.grad(_energy), (0, None))(x[:, None], w),
    "vmap over a column": lambda x, w: func.vmap(torch.cumsum, (1, None), 1)(x, 0),
    "vmap in chunks": lambda x, w: func.vmap(lambda row: row @ w, chunk_size=2)(x),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms_inside(name):
    assert_compiles(TRANSFORMS[name], X, W, calls=1)


def test_per_sample_gradients_through_functional_call():
    models, batch = twins(mlp), randn(6, 12)

    def per_sample(model, weights, inputs):
        def loss(weights, row):
            return func.functional_call(model, weights, (row[None],)).square().sum()

        return func.vmap(func.grad(loss), (None, 0))(weights, inputs)

    results = []
    for call, model, inputs in zip(
        (per_sample, compiled(per_sample)), models, (batch, batch.to(DEVICE)), strict=True
    ):
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
