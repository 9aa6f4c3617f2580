"""Forward-mode AD, torch.func and higher derivatives, beside the CPU."""

import pytest
import torch
from architectures import mlp
from torch import func, nn
from torch.autograd import forward_ad, gradcheck, gradgradcheck
from torch.nn import functional as F
from transforms import TRANSFORMS, per_sample_gradients
from twins import DEVICE, assert_same, assert_same_on_both, gradients, to, twins


def _randn(*sizes, seed=1, dtype=torch.float32):
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(seed), dtype=dtype)


X, W = _randn(3, 4), _randn(4, 2, seed=2)


@pytest.mark.parametrize("name", TRANSFORMS)
def test_function_transforms(name):
    assert_same_on_both(TRANSFORMS[name], X, W)


def test_per_sample_gradients_through_functional_call():
    results = []
    for model, inputs in zip(twins(mlp), (batch := _randn(6, 12), to(DEVICE, batch)), strict=True):
        weights = {name: p.detach() for name, p in model.named_parameters()}
        results.append(list(per_sample_gradients(model, weights, inputs).values()))
    assert_same(results[1], results[0])


def test_vmap_gives_each_sample_its_own_random_numbers():
    x = torch.zeros(3, 100, device=DEVICE)
    different = func.vmap(lambda row: F.dropout(row + 1, 0.5), randomness="different")(x)
    same = func.vmap(lambda row: F.dropout(row + 1, 0.5), randomness="same")(x)
    assert not torch.equal(different[0], different[1])
    assert torch.equal(same[0], same[1])


def test_forward_mode_through_a_model():
    models, batch, tangent = twins(mlp), _randn(4, 12), _randn(4, 12, seed=3)

    def derivative(model, inputs, direction):
        with forward_ad.dual_level():
            return list(forward_ad.unpack_dual(model(forward_ad.make_dual(inputs, direction))))

    expected = derivative(models[0], batch, tangent)
    assert_same(derivative(models[1], *to(DEVICE, [batch, tangent])), expected)


DOUBLY = {
    "matmul and tanh": lambda x: torch.tanh(x @ x.mT),
    "layer norm": lambda x: F.layer_norm(x, x.shape[-1:]),
    "convolution": lambda x: F.conv1d(x[None], x[:2, None].expand(2, 3, 4)[..., :2]),
    "log softmax": lambda x: F.log_softmax(x, -1),
    "gelu": F.gelu,
    "indexing": lambda x: x[:, [0, 0, 2]].prod(-1),
}


@pytest.mark.parametrize("name", DOUBLY)
def test_first_and_second_derivatives_match_finite_differences(name):
    x = _randn(3, 4, dtype=torch.float64).to(DEVICE).requires_grad_()
    assert gradcheck(DOUBLY[name], (x,))
    assert gradgradcheck(DOUBLY[name], (x,))


def test_gradient_penalty_trains():
    models, batch = twins(mlp), _randn(4, 12)
    for model, device in zip(models, ("cpu", DEVICE), strict=True):
        inputs = batch.to(device).requires_grad_()
        (slope,) = torch.autograd.grad(model(inputs).sum(), inputs, create_graph=True)
        (slope.norm(dim=1) - 1).square().mean().backward()
    pairs = zip(gradients(models[1]), gradients(models[0]), strict=True)
    for got, expected in pairs:
        assert (got is None) == (expected is None)
        if expected is not None:
            assert_same(got, expected, rtol=1e-4, atol=1e-5)


def test_custom_functions_hooks_and_accumulation():
    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx, grad):
            return 3 * ctx.saved_tensors[0] ** 2 * grad

    def accumulated(x):
        leaf = x.clone().requires_grad_()
        leaf.register_hook(lambda grad: grad * 2)
        for _ in range(2):
            Cube.apply(leaf).sum().backward()
        return leaf.grad

    assert_same_on_both(accumulated, X)


def test_parametrized_weights():
    models = twins(lambda: nn.utils.parametrizations.weight_norm(nn.Linear(4, 3)))
    for model, device in zip(models, ("cpu", DEVICE), strict=True):
        model(X.to(device)).square().sum().backward()
    assert_same(gradients(models[1]), gradients(models[0]), rtol=1e-4, atol=1e-5)


def test_attention_without_heads_has_second_derivatives():
    def penalty(query, key, value):
        output = F.scaled_dot_product_attention(query, key, value)
        (grad,) = torch.autograd.grad(output.square().sum(), query, create_graph=True)
        return torch.autograd.grad(grad.square().sum(), (query, key, value))

    operands = [_randn(2, 3, 4, seed=seed).requires_grad_() for seed in (1, 2, 3)]
    on_device = [each.detach().to(DEVICE).requires_grad_() for each in operands]
    assert_same(list(penalty(*on_device)), list(penalty(*operands)))
