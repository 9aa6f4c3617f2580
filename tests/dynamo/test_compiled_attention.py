"""Attention in compiled functions: scaled dot products, chosen backends, flex attention."""

import pytest
import torch
from compiling import assert_compiles, assert_trains, compiled, programs_got, randn
from torch import nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.bias import causal_lower_right, causal_upper_left
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from twins import DEVICE, assert_same, assert_same_on_both, gradients, to, twins

Q, K, V = (randn(1, 2, 16, 8, seed=seed) for seed in range(3))


def _with_bias(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, attn_mask=torch.ones_like(q @ k.mT).tril())


SCALED = {
    "plain": F.scaled_dot_product_attention,
    "causal": lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
    "bias": _with_bias,
    "scale": lambda q, k, v: F.scaled_dot_product_attention(q, k, v, scale=0.3),
    "groups": lambda q, k, v: F.scaled_dot_product_attention(
        q, k[:, :1], v[:, :1], enable_gqa=True
    ),
}


@pytest.mark.parametrize("name", SCALED)
def test_scaled_dot_product_attention_trains(name):
    inputs = [each.clone().requires_grad_() for each in (Q, K, V)]
    assert_trains(SCALED[name], *inputs, calls=1)


def test_the_math_backend_is_chosen_inside():
    def function(q, k, v):
        with sdpa_kernel(SDPBackend.MATH):
            return F.scaled_dot_product_attention(q, k, v)

    assert_compiles(function, Q, K, V)


BACKENDS = {
    "flash": [SDPBackend.FLASH_ATTENTION],
    "efficient": [SDPBackend.EFFICIENT_ATTENTION],
    "cudnn": [SDPBackend.CUDNN_ATTENTION],
    "overrideable": [SDPBackend.OVERRIDEABLE],
    "any": [SDPBackend.FLASH_ATTENTION, SDPBackend.MATH],
}


@pytest.mark.parametrize("name", BACKENDS)
def test_a_choice_of_kernels_for_another_device_does_not_matter(name):
    def attend(q, k, v):
        with sdpa_kernel(BACKENDS[name]):
            return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    expected = F.scaled_dot_product_attention(Q, K, V, is_causal=True)
    for call in (attend, compiled(attend)):
        assert_same(call(*to(DEVICE, [Q, K, V])), expected)


@pytest.mark.parametrize("columns", [16, 20], ids=["square", "more keys than queries"])
@pytest.mark.parametrize("bias", [causal_lower_right, causal_upper_left])
def test_causal_biases_train(bias, columns):
    mask = bias(16, columns)
    keys = [randn(1, 2, columns, 8, seed=seed) for seed in (1, 2)]
    leaves = [each.clone().requires_grad_() for each in (Q, *keys)]

    def attend(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, mask)

    def gradients(q, k, v):
        leaves = [each.detach().requires_grad_() for each in (q, k, v)]
        return list(torch.autograd.grad(attend(*leaves).square().sum(), leaves))

    assert_trains(attend, *leaves, calls=1)
    assert_same_on_both(gradients, Q, *keys)


def test_multihead_attention_and_encoder_layers_train():
    def build():
        return nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)

    models, x = twins(build), randn(2, 5, 8)
    for call, inputs in ((models[0], x), (compiled(models[1]), x.to(DEVICE))):
        call(inputs).exp().mean().backward()  # layer norm fixes a sum of squares
    assert_same(gradients(models[1]), gradients(models[0]))


def _relative(score, batch, head, query, key):
    return score + (query - key) * 0.1


def _causal(batch, head, query, key):
    return query >= key


def _masked(q, k, v):
    mask = create_block_mask(_causal, None, None, 16, 16, device=q.device)
    return flex_attention(q, k, v, block_mask=mask)


FLEX = {
    "plain": flex_attention,
    "a score": lambda q, k, v: flex_attention(q, k, v, score_mod=_relative),
    "a mask": _masked,
    "scale": lambda q, k, v: flex_attention(q, k, v, scale=0.3),
}


@pytest.mark.parametrize("name", FLEX)
def test_flex_attention(name):
    assert_compiles(FLEX[name], Q, K, V, calls=1)


def test_flex_attention_is_differentiated_as_the_same_product():
    def gradients_of(function, *inputs):
        function(*inputs).square().sum().backward()
        return [each.grad for each in inputs]

    expected = gradients_of(
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        *(each.clone().requires_grad_() for each in (Q, K, V)),
    )
    inputs = [each.to(DEVICE).requires_grad_() for each in (Q, K, V)]
    assert_same(gradients_of(compiled(_masked), *inputs), expected)


def test_flex_attention_under_autocast_computes_in_its_dtype():
    inputs = Q, K, V.abs()  # sums of both signs would cancel most of bfloat16's digits
    with torch.autocast(DEVICE):
        got = compiled(flex_attention)(*(each.to(DEVICE) for each in inputs))
    expected = F.scaled_dot_product_attention(*(each.bfloat16() for each in inputs))
    assert_same(got, expected)


def test_flex_attention_runs_eagerly_too():
    got = flex_attention(*(each.to(DEVICE) for each in (Q, K, V)), score_mod=_relative)
    assert_same(got, flex_attention(Q, K, V, score_mod=_relative))


def test_lengths_with_symbols_and_bounds_of_their_own_are_taken_as_equal():
    run, programs = compiled(F.scaled_dot_product_attention), set()
    for n in (3, 5, 11):
        shapes = ((2, 4, 3, 8), (2, 4, n, 8), (2, 4, n, 8), (2, 1, 3, n))
        inputs = [randn(*shape, seed=seed) for seed, shape in enumerate(shapes)]
        expected = F.scaled_dot_product_attention(*inputs)
        inputs = [each.to(DEVICE) for each in inputs]
        for place, dim, bound in ((1, 2, 24), (2, 2, 16), (3, 3, 40)):
            torch._dynamo.mark_dynamic(inputs[place], dim, min=2, max=bound)
        assert_same(run(*inputs), expected)
        programs.add(programs_got())
    assert len(programs) == 1
