"""flex_attention under torch.compile(backend="tpu") is part of the program, its gradients too."""

import math

import pytest
import torch
from captured import compiled, nothing_on_host
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

BATCH, HEADS, ROWS, SIZE = 2, 4, 24, 8


def operands(key_heads=HEADS, key_batch=BATCH, dtype=torch.float32):
    generator = torch.Generator().manual_seed(0)
    shapes = [(BATCH, HEADS), (key_batch, key_heads), (key_batch, key_heads)]
    return [torch.randn(*each, ROWS, SIZE, generator=generator).to(dtype) for each in shapes]


def dense(query, key, value, change, keep):
    """Attention with the scores written out; change(score, b, h, q, kv) and keep(b, h, q, kv)."""
    key, value = (each.repeat_interleave(HEADS // each.shape[1], 1) for each in (key, value))
    b, h, q, kv = torch.meshgrid(
        *(torch.arange(n) for n in (BATCH, HEADS, ROWS, ROWS)), indexing="ij"
    )
    scores = change(query.float() @ key.float().mT / math.sqrt(SIZE), b, h, q, kv)
    scores = scores.masked_fill(~keep(b, h, q, kv), -torch.inf)
    weights = torch._safe_softmax(scores, -1)
    return (weights @ value.float()).to(query.dtype), scores.logsumexp(-1)


def unchanged(score, b, h, q, kv):
    return score


def causal(b, h, q, kv):
    return q >= kv


def everything(b, h, q, kv):
    return q >= 0


def differentiated(function, tensors):
    """The outputs, and the gradients of a sum that weighs every element of them."""
    leaves = [tensor.detach().clone().requires_grad_() for tensor in tensors]
    outputs = function(*leaves)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    weights = [torch.linspace(-1, 1, out.numel()).reshape(out.shape) for out in outputs]
    sum(
        (out.float() * weight.to(out.device)).sum()
        for out, weight in zip(outputs, weights, strict=True)
    ).backward()
    return [*outputs, *(leaf.grad for leaf in leaves)]


def assert_same(attend, reference, tensors):
    expected = differentiated(reference, tensors)
    with nothing_on_host():  # the backward is compiled when it is called
        found = differentiated(compiled(attend), [tensor.to("tpu") for tensor in tensors])
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one.cpu(), other)


def test_attention_without_functions_is_softmax_attention():
    assert_same(
        lambda q, k, v: flex_attention(q, k, v),
        lambda q, k, v: dense(q, k, v, unchanged, everything)[0],
        operands(),
    )


def test_logsumexp_is_returned_and_has_a_gradient():
    assert_same(
        lambda q, k, v: flex_attention(q, k, v, return_lse=True),
        lambda q, k, v: dense(q, k, v, unchanged, everything),
        operands(),
    )


def test_block_mask_decides_what_is_seen():
    mask = create_block_mask(causal, None, None, ROWS, ROWS, device="tpu")
    assert_same(
        lambda q, k, v: flex_attention(q, k, v, block_mask=mask),
        lambda q, k, v: dense(q, k, v, unchanged, causal)[0],
        operands(),
    )


def test_rows_that_see_nothing_give_zeros():
    def late(b, h, q, kv):
        return (q >= kv) & (kv > 3)

    mask = create_block_mask(late, None, None, ROWS, ROWS, device="tpu")
    assert_same(
        lambda q, k, v: flex_attention(q, k, v, block_mask=mask),
        lambda q, k, v: dense(q, k, v, unchanged, late)[0],
        operands(),
    )


@pytest.mark.parametrize("key_heads", [1, 2])
def test_query_heads_share_key_heads(key_heads):
    assert_same(
        lambda q, k, v: flex_attention(q, k, v, enable_gqa=True),
        lambda q, k, v: dense(q, k, v, unchanged, everything)[0],
        operands(key_heads),
    )


def test_batches_share_keys():
    mask = create_block_mask(causal, BATCH, None, ROWS, ROWS, device="tpu")
    assert_same(
        lambda q, k, v: flex_attention(q, k, v, block_mask=mask),
        lambda q, k, v: dense(q, k, v, unchanged, causal)[0],
        operands(key_batch=1),
    )


def test_a_function_of_score_and_position_changes_scores():
    def soft_cap(score, b, h, q, kv):
        return 2 * torch.tanh(score / 2) + (kv - q) * torch.exp2(-2.0 * (h + 1))

    assert_same(
        lambda q, k, v: flex_attention(q, k, v, score_mod=soft_cap),
        lambda q, k, v: dense(q, k, v, soft_cap, everything)[0],
        operands(),
    )


def test_captured_tensors_get_gradients():
    generator = torch.Generator().manual_seed(1)
    slopes = torch.randn(HEADS, generator=generator)
    distances = torch.randn(2 * ROWS, generator=generator)

    def changed(slopes, distances):
        def change(score, b, h, q, kv):
            return score * slopes[h] + distances[q - kv + ROWS]

        return change

    assert_same(
        lambda q, k, v, *buffers: flex_attention(q, k, v, score_mod=changed(*buffers)),
        lambda q, k, v, *buffers: dense(q, k, v, changed(*buffers), everything)[0],
        [*operands(), slopes, distances],
    )


def test_captured_tensors_decide_a_mask():
    document = torch.arange(ROWS) // 7
    on_device = document.to("tpu")

    def same_document(b, h, q, kv):
        return on_device[q] == on_device[kv]

    mask = create_block_mask(same_document, None, None, ROWS, ROWS, device="tpu")
    assert_same(
        lambda q, k, v: flex_attention(q, k, v, block_mask=mask),
        lambda q, k, v: dense(q, k, v, unchanged, lambda b, h, q, kv: document[q] == document[kv])[
            0
        ],
        operands(),
    )


def test_narrow_operands_have_scores_in_float32():
    tensors = operands(dtype=torch.bfloat16)
    attend = compiled(lambda q, k, v: flex_attention(q, k, v, return_lse=True))
    out, logsumexp = attend(*(tensor.to("tpu") for tensor in tensors))
    assert out.dtype == torch.bfloat16
    torch.testing.assert_close(logsumexp.cpu(), dense(*tensors, unchanged, everything)[1])


def test_scores_of_narrow_operands_are_changed_in_float32():
    def change(score, b, h, q, kv):
        return score * 1.01 + kv * 0.3

    tensors = operands(dtype=torch.bfloat16)
    attend = compiled(lambda q, k, v: flex_attention(q, k, v, score_mod=change, return_lse=True))
    _, logsumexp = attend(*(tensor.to("tpu") for tensor in tensors))
    torch.testing.assert_close(logsumexp.cpu(), dense(*tensors, change, everything)[1])


def test_random_numbers_in_a_function_are_refused():
    def noisy(score, b, h, q, kv):
        return score + torch.rand((), device=score.device)

    attend = compiled(lambda q, k, v: flex_attention(q, k, v, score_mod=noisy))
    with pytest.raises(Exception, match="random"):
        attend(*(tensor.to("tpu") for tensor in operands()))
