"""torch.nn.attention.varlen, which the CPU lacks, beside attention over each sequence by itself."""

import pytest
import torch
from compiling import compiled, randn
from torch.nn import functional as F
from torch.nn.attention.varlen import AuxRequest, varlen_attn, varlen_attn_out
from twins import DEVICE, assert_same, to

STARTS_Q = torch.tensor([0, 3, 3, 8, 10], dtype=torch.int32)
STARTS_K = torch.tensor([0, 4, 6, 11, 13], dtype=torch.int32)
WINDOWS = {"all": (-1, -1), "causal": (-1, 0), "sliding": (2, 0), "both sides": (1, 1)}


def _mask(rows, columns, window):
    """Which pairs attend; a window is aligned at the ends of queries and keys."""
    ahead = torch.arange(columns) - torch.arange(rows)[:, None] - (columns - rows)
    left, right = window
    return (ahead >= (-left if left >= 0 else -columns - rows)) & (
        ahead <= (right if right >= 0 else columns + rows)
    )


def _one_by_one(query, key, value, starts_q, starts_k, window=(-1, -1), scale=None, used=None):
    outputs = []
    for place in range(len(starts_q) - 1):
        rows = slice(starts_q[place], starts_q[place + 1])
        end = starts_k[place + 1] if used is None else starts_k[place] + used[place]
        columns = slice(starts_k[place], end)
        heads = (
            x[part].swapaxes(0, 1)[None] for x, part in _parts(query, key, value, rows, columns)
        )
        mask = _mask(rows.stop - rows.start, columns.stop - columns.start, window)
        output = F.scaled_dot_product_attention(*heads, mask, scale=scale, enable_gqa=True)
        outputs.append(output[0].swapaxes(0, 1))
    return torch.cat(outputs)


def _parts(query, key, value, rows, columns):
    return (query, rows), (key, columns), (value, columns)


@pytest.mark.parametrize("heads", [4, 2], ids=["own keys", "shared keys"])
@pytest.mark.parametrize("name", WINDOWS)
def test_packed_sequences_attend_within_themselves_and_train(name, heads):
    window, scale = WINDOWS[name], 0.3 if name == "sliding" else None
    tensors = randn(10, 4, 8), randn(13, heads, 8, seed=2), randn(13, heads, 8, seed=3)

    def attend(query, key, value, starts_q, starts_k):
        return varlen_attn(
            query, key, value, starts_q, starts_k, 5, 5, window_size=window, scale=scale,
            enable_gqa=heads == 2,
        )  # fmt: skip

    leaves = [each.requires_grad_() for each in tensors]
    starts = STARTS_Q.tolist(), STARTS_K.tolist()
    expected = _one_by_one(*leaves, *starts, window, scale)
    grad = randn(10, 4, 8, seed=4)
    gradients = torch.autograd.grad(expected, leaves, grad)
    for call in (attend, compiled(attend)):
        leaves = [each.detach().to(DEVICE).requires_grad_() for each in tensors]
        output = call(*leaves, *to(DEVICE, [STARTS_Q, STARTS_K]))
        assert_same(output, expected)
        got = torch.autograd.grad(output, leaves, grad.to(DEVICE))
        assert_same(list(got), list(gradients))


def test_the_logarithms_of_the_sums_come_with_it():
    query = randn(8, 2, 4)
    starts = torch.tensor([0, 5, 8], dtype=torch.int32)
    _, logsumexp = varlen_attn(
        *to(DEVICE, [query, query, query, starts, starts]), 5, 5, return_aux=AuxRequest(lse=True)
    )
    scores = [part.swapaxes(0, 1) @ part.permute(1, 2, 0) / 2 for part in query.split([5, 3])]
    assert_same(logsumexp, torch.cat([each.logsumexp(-1) for each in scores], dim=1))


def test_what_is_not_a_number_stays_in_its_sequence():
    value = randn(8, 2, 4)
    value[6] = torch.nan
    starts = torch.tensor([0, 5, 8], dtype=torch.int32)
    inputs = to(DEVICE, [randn(8, 2, 4), randn(8, 2, 4, seed=2), value, starts, starts])
    output = varlen_attn(*inputs, 5, 5)
    assert not output[:5].isnan().any()
    assert output[5:].isnan().all()


PAGES = torch.tensor([[5, 1], [0, 2], [3, 4]], dtype=torch.int32)
USED = torch.tensor([5, 8, 2], dtype=torch.int32)
ROWS = torch.tensor([0, 1, 2, 3], dtype=torch.int32)


def _decode(out, query, keys, values, rows, pages, used):
    varlen_attn_out(
        out, query, keys, values, rows, None, 1, 8, enable_gqa=True, seqused_k=used,
        block_table=pages,
    )  # fmt: skip
    return out + 1


@pytest.mark.parametrize("call", [lambda f: f, compiled], ids=["eager", "compiled"])
def test_keys_come_from_pages_into_an_output_that_is_there(call):
    query, *pools = randn(3, 4, 8), randn(6, 4, 2, 8, seed=2), randn(6, 4, 2, 8, seed=3)
    flat = [torch.cat([pool[each].reshape(-1, 2, 8) for each in PAGES]) for pool in pools]
    expected = _one_by_one(query, *flat, range(4), range(0, 25, 8), used=USED.tolist())
    out = torch.full_like(query, torch.nan, device=DEVICE)
    result = call(_decode)(out, *to(DEVICE, [query, *pools, ROWS, PAGES, USED]))
    assert_same([out, result], [expected, expected + 1])


def test_lengths_change_from_call_to_call():
    def attend(x, starts, longest):
        return varlen_attn(x, x, x, starts, starts, longest, longest, window_size=(-1, 0))

    run = compiled(attend, dynamic=True)
    for lengths in ([3, 2], [4, 5, 1], [7]):
        starts = torch.tensor([0, *lengths], dtype=torch.int32).cumsum(0, dtype=torch.int32)
        x, ends = randn(sum(lengths), 2, 8), starts.tolist()
        expected = _one_by_one(x, x, x, ends, ends, (-1, 0))
        assert_same(run(x.to(DEVICE), starts.to(DEVICE), max(lengths)), expected)
