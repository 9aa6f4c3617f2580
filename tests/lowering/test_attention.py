"""Attention beside CPU PyTorch."""

import math

import pytest
import torch
import torch.nn.functional as F
from family import Outside
from shadow import Shadow, run_rule, to_tensor
from torch.testing import assert_close

aten = torch.ops.aten

OTHERS = Outside("attention")


def reference(query, key, value, bias=None, is_causal=False, scale=None):
    heads = query.shape[1] // key.shape[1]
    key, value = (operand.repeat_interleave(heads, 1) for operand in (key, value))
    if is_causal:
        causal = torch.ones(query.shape[2], key.shape[2], dtype=torch.bool).tril()
        bias = causal if bias is None else torch.where(causal, bias, -torch.inf)
    return F.scaled_dot_product_attention(query, key, value, bias, scale=scale)


def forward(query, key, value, bias=None, dropout_p=0.0, is_causal=False, scale=None, seed=0):
    return run_rule(
        aten._scaled_dot_product_fused_attention_overrideable.default,
        (query, key, value, bias, dropout_p, is_causal),
        {"scale": scale},
        seed,
    )


def backward(grad, query, key, value, bias, results, dropout_p=0.0, is_causal=False, scale=None):
    output, logsumexp, _, _, max_q, max_k, seed, offset, _ = results
    return run_rule(
        aten._scaled_dot_product_fused_attention_overrideable_backward.default,
        (
            grad,
            query,
            key,
            value,
            bias,
            [True] * 4,
            to_tensor(output, query.dtype),
            to_tensor(logsumexp, torch.float32),
            None,
            None,
            int(max_q),
            int(max_k),
            dropout_p,
            is_causal,
            to_tensor(seed, torch.int64),
            to_tensor(offset, torch.int64),
        ),
        {"scale": scale},
    )


def inputs(dtype=torch.float32, heads=4, key_heads=4):
    torch.manual_seed(0)
    query = torch.randn(2, heads, 5, 8, dtype=dtype)
    key, value = torch.randn(2, key_heads, 7, 8), torch.randn(2, key_heads, 7, 6)
    return query, key.to(dtype), value.to(dtype)


def masked_rows():
    mask = torch.rand(2, 1, 5, 7) > 0.4
    mask[:, :, 2] = False
    return mask


CASES = {
    "plain": {},
    "causal": {"is_causal": True},
    "scale": {"scale": 0.3},
    "bias": {"bias": torch.randn(4, 5, 7)},
    "bias of the keys": {"bias": torch.randn(2, 1, 1, 7)},
    "bool mask": {"bias": masked_rows()},
    "-inf mask": {"bias": torch.zeros(2, 1, 5, 7).masked_fill(~masked_rows(), -math.inf)},
    "causal bias": {"bias": torch.randn(5, 7), "is_causal": True},
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_fused_attention(case, dtype):
    options = dict(CASES[case])
    bias = options.pop("bias", None)
    if bias is not None and bias.dtype != torch.bool:
        bias = bias.to(dtype)
    operands = inputs(dtype, key_heads=2)
    tolerance = {torch.bfloat16: 3e-2, torch.float64: 1e-9}.get(dtype, 1e-5)

    leaves = [operand.double().requires_grad_() for operand in operands]
    wide_bias = bias
    if bias is not None and bias.dtype != torch.bool:
        wide_bias = bias.double().requires_grad_()
        leaves.append(wide_bias)
    expected = reference(*leaves[:3], wide_bias, **options)
    grad = torch.randn_like(expected).to(dtype)
    expected_grads = torch.autograd.grad(expected, leaves, grad.double())

    results = forward(*operands, bias, **options)
    grads = backward(grad, *operands, bias, results, **options)
    assert results[1].shape == (2, 4, 5)
    assert results[2:6] == (None, None, 5, 7)
    assert (grads[3] is None) == (len(leaves) == 3)
    pairs = zip((results[0], *grads), (expected, *expected_grads), strict=False)
    for got, wanted in pairs:
        got = to_tensor(got, dtype).double()
        assert_close(got, wanted, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dropout_p", [0.3, 1.0])
def test_dropout_repeats_in_backward(dropout_p):
    """A value that is the identity shows the weights, and its gradient shows them again."""
    query, key, _ = inputs()
    value = torch.eye(7).expand(2, 4, 7, 7).contiguous()
    results = forward(query, key, value, dropout_p=dropout_p, seed=3)
    weights = to_tensor(results[0], torch.float32)
    softmax = reference(query, key, value)
    kept = weights != 0
    assert_close(weights[kept], softmax[kept] / (1 - dropout_p))
    assert abs(kept.double().mean().item() - (1 - dropout_p)) < 0.1

    grad = torch.randn(2, 4, 5, 7)
    leaves = [each.clone().requires_grad_() for each in (query, key, value)]
    scores = leaves[0] @ leaves[1].mT / math.sqrt(8)
    factor = kept / (1 - dropout_p) if dropout_p < 1 else kept
    expected = ((scores.softmax(-1) * factor) @ leaves[2],)
    expected_grads = torch.autograd.grad(expected, leaves, grad)
    grads = backward(grad, query, key, value, None, results, dropout_p=dropout_p)
    for got, wanted in zip(grads, expected_grads, strict=False):
        assert_close(to_tensor(got, torch.float32), wanted)


def test_fused_attention_without_a_batch():
    query, key, value = (operand[0] for operand in inputs())
    results = forward(query, key, value)
    grads = backward(torch.ones(4, 5, 6), query, key, value, None, results)
    assert results[0].shape == (4, 5, 6)
    assert results[1].shape == (1, 4, 5)
    assert [grad.shape for grad in grads[:3]] == [query.shape, key.shape, value.shape]


def test_no_keys():
    query, key, value = inputs()
    output = forward(query, key[:, :, :0], value[:, :, :0])[0]
    assert_close(to_tensor(output, torch.float32), torch.zeros(2, 4, 5, 6))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("is_causal", [False, True])
def test_flash_attention_for_cpu(dtype, is_causal):
    query, key, value = (torch.randn(2, 3, 9, 8, dtype=dtype) for _ in range(3))
    tolerance = 2e-2 if dtype == torch.bfloat16 else 1e-5
    op = aten._scaled_dot_product_flash_attention_for_cpu
    results = op(query, key, value, 0.0, is_causal)
    got = run_rule(op.default, (query, key, value, 0.0, is_causal), {})
    for have, want in zip(got, results, strict=True):
        assert_close(to_tensor(have, want.dtype), want, rtol=tolerance, atol=tolerance)
    with Shadow(skip=OTHERS, rtol=tolerance, atol=tolerance) as shadow:
        aten._scaled_dot_product_flash_attention_for_cpu_backward(
            torch.randn_like(query), query, key, value, *results, 0.0, is_causal
        )
    assert shadow.seen


def test_efficient_attention():
    query, key, value = inputs()
    op = aten._scaled_dot_product_efficient_attention.default
    output, logsumexp, seed, offset = run_rule(op, (query, key, value, None, True), {})
    assert logsumexp.shape == (2, 4, 32)
    assert run_rule(op, (query, key, value, None, False), {})[1].shape == (2, 4, 0)
    saved = [to_tensor(x, torch.float32) for x in (output, logsumexp)]
    words = [to_tensor(x, torch.int64) for x in (seed, offset)]
    grad = torch.randn(2, 4, 5, 6)
    grads = run_rule(
        aten._scaled_dot_product_efficient_attention_backward.default,
        (grad, query, key, value, None, *saved, *words, 0.0, [True, True, True, False]),
        {},
    )
    leaves = [operand.requires_grad_() for operand in (query, key, value)]
    expected = torch.autograd.grad(reference(*leaves), leaves, grad)
    for have, want in zip(grads, expected, strict=False):
        assert_close(to_tensor(have, torch.float32), want)


@pytest.mark.parametrize("need_weights", [False, True])
def test_native_multi_head_attention(need_weights):
    module = torch.nn.MultiheadAttention(8, 2, batch_first=True).eval()
    x = torch.randn(3, 5, 8)
    padding = torch.zeros(3, 5, dtype=torch.bool)
    padding[1, 3:] = True
    with torch.no_grad(), Shadow(skip=OTHERS) as shadow:
        module(x, x, x, need_weights=need_weights)
        module(x, x, x, need_weights=need_weights, attn_mask=torch.ones(5, 5).triu(1).bool())
        module(x, x, x, need_weights=need_weights, key_padding_mask=padding)
        module(x, x, x, need_weights=need_weights, average_attn_weights=False)
    assert shadow.seen["aten._native_multi_head_attention.default"] == 4


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_transformer_encoder_layer(norm_first, activation):
    layer = torch.nn.TransformerEncoderLayer(
        8, 2, 16, activation=activation, batch_first=True, norm_first=norm_first
    ).eval()
    with torch.no_grad(), Shadow(skip=OTHERS) as shadow:
        layer(torch.randn(3, 5, 8))
        layer(torch.randn(3, 5, 8), src_mask=torch.ones(5, 5).triu(1).bool())
    assert shadow.seen["aten._transformer_encoder_layer_fwd.default"] == 2
