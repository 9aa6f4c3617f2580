"""Attention over sequences that lie packed one after another, as flash attention's ops take them.

Inside, the sequences are padded to the longest: that is less than scores of all tokens with all.
"""

import jax
import jax.numpy as jnp
import torch
from jax import lax

from torch_tpu.lowering.attention import attend, attend_backward
from torch_tpu.lowering.registry import lowering

aten = torch.ops.aten


def _places(starts, longest):
    """Where the rows of padded sequences lie, and which of them are a sequence's own."""
    place = starts[:-1, None] + lax.iota(starts.dtype, longest)
    return place, place < starts[1:, None]


def _padded(packed, starts, longest):
    """(tokens, heads, size) as (sequences, heads, longest, size), with zeros after a sequence.

    Without ``starts`` the argument has (sequences, longest, heads, size).
    """
    if starts is None:
        return packed.swapaxes(1, 2)
    place, inside = _places(starts, longest)
    rows = jnp.take(packed, place, axis=0, mode="clip")
    return jnp.where(inside[..., None, None], rows, 0).swapaxes(1, 2)


def _packed(padded, starts, tokens):
    """What ``_padded`` came from; tokens of no sequence are zeros."""
    rows = padded.swapaxes(1, 2)
    if starts is None:
        return rows
    place, inside = _places(starts, rows.shape[1])
    packed = jnp.zeros((tokens, *rows.shape[2:]), rows.dtype)
    return packed.at[jnp.where(inside, place, tokens)].set(rows, mode="drop")


def _paged(pool, table):
    """Keys or values of every sequence, put together from a pool of pages."""
    pages = jnp.take(pool, table, axis=0, mode="clip")
    return pages.reshape(table.shape[0], -1, *pool.shape[2:]).swapaxes(1, 2)


def _mask(query, key, starts_q, lengths_k, left, right):
    """Which pairs attend; sequences of queries and keys are aligned at their ends."""
    sequences, _, rows, _ = query.shape
    columns = key.shape[2]
    lengths_q = jnp.full(sequences, rows) if starts_q is None else jnp.diff(starts_q)
    row, column = (lax.broadcasted_iota(jnp.int32, (1, rows, columns), axis) for axis in (1, 2))
    lengths_q, lengths_k = (
        each.astype(jnp.int32)[:, None, None] for each in (lengths_q, lengths_k)
    )
    ahead = column - row - (lengths_k - lengths_q)
    mask = (row < lengths_q) & (column < lengths_k)
    if left >= 0:
        mask &= ahead >= -left
    if right >= 0:
        mask &= ahead <= right
    return mask[:, None]


def _window(is_causal, left, right):
    left, right = (-1 if side is None else side for side in (left, right))
    return left, 0 if is_causal else right


def _forward(
    query, key, value, starts_q, starts_k, max_q, max_k, dropout_p, window, scale, used_k, table,
    generator,
):  # fmt: skip
    tokens = query.shape[0]
    query = _padded(query, starts_q, max_q)
    if table is None:
        key, value = (_padded(each, starts_k, max_k) for each in (key, value))
    else:
        key, value = (_paged(each, table) for each in (key, value))
    if used_k is None:
        sequences, _, columns, _ = key.shape
        used_k = jnp.full(sequences, columns) if starts_k is None else jnp.diff(starts_k)
    mask = _mask(query, key, starts_q, used_k, *window)
    output, logsumexp, *words = attend(query, key, value, mask, dropout_p, False, scale, generator)
    if starts_q is not None:
        logsumexp = _packed(logsumexp[..., None], starts_q, tokens)[..., 0].T
    return _packed(output, starts_q, tokens), logsumexp, jnp.stack(words).astype(jnp.uint64)


def _backward(
    grad, query, key, value, output, logsumexp, starts_q, starts_k, max_q, max_k, dropout_p, window,
    state, scale,
):  # fmt: skip
    tokens = query.shape[0], key.shape[0], value.shape[0]
    grad, query, output = (_padded(each, starts_q, max_q) for each in (grad, query, output))
    key, value = (_padded(each, starts_k, max_k) for each in (key, value))
    if starts_q is not None:
        logsumexp = _padded(logsumexp.T[..., None], starts_q, max_q)[..., 0]
    sequences, _, columns, _ = key.shape
    lengths_k = jnp.full(sequences, columns) if starts_k is None else jnp.diff(starts_k)
    mask = _mask(query, key, starts_q, lengths_k, *window)
    words = state.astype(jnp.uint32)
    grads = attend_backward(
        grad, query, key, value, mask, output, logsumexp, dropout_p, False, scale, words
    )
    starts = starts_q, starts_k, starts_k
    return tuple(_packed(*each) for each in zip(grads[:3], starts, tokens, strict=True))


def _refuse(alibi_slopes):
    if alibi_slopes is not None:
        raise NotImplementedError("attention with alibi_slopes has no lowering")


@lowering(aten._flash_attention_forward.default, static=("dropout_p", "scale"))
def _flash_attention_forward(
    query,
    key,
    value,
    cum_seq_q,
    cum_seq_k,
    max_q,
    max_k,
    dropout_p,
    is_causal,
    return_debug_mask,
    *,
    scale=None,
    window_size_left=None,
    window_size_right=None,
    seqused_k=None,
    alibi_slopes=None,
    block_table=None,
    num_splits=None,
    generator,
):
    _refuse(alibi_slopes)
    window = _window(is_causal, window_size_left, window_size_right)
    output, logsumexp, state = _forward(
        query, key, value, cum_seq_q, cum_seq_k, max_q, max_k, dropout_p, window, scale, seqused_k,
        block_table, generator,
    )  # fmt: skip
    return output, logsumexp, state, jnp.zeros((), jnp.uint64), jnp.zeros(0, query.dtype)


@lowering(aten._flash_attention_forward_no_dropout_inplace.default, static=("dropout_p", "scale"))
def _flash_attention_forward_no_dropout_inplace(out, *args, **named):
    output, logsumexp, *_ = _flash_attention_forward(*args, **named)
    return logsumexp, output


@lowering(aten._flash_attention_backward.default, static=("dropout_p", "scale"))
def _flash_attention_backward(
    grad_out,
    query,
    key,
    value,
    out,
    logsumexp,
    cum_seq_q,
    cum_seq_k,
    max_q,
    max_k,
    dropout_p,
    is_causal,
    rng_state,
    unused,
    *,
    scale=None,
    window_size_left=None,
    window_size_right=None,
):
    window = _window(is_causal, window_size_left, window_size_right)
    return _backward(
        grad_out, query, key, value, out, logsumexp, cum_seq_q, cum_seq_k, max_q, max_k, dropout_p,
        window, rng_state, scale,
    )  # fmt: skip


# What torch.nn.attention.varlen makes of these; captured graphs have its ops whole.
@lowering("torch_attn::_varlen_attn", static=("scale",))
def _varlen_attn(
    query,
    key,
    value,
    cu_seq_q,
    cu_seq_k,
    max_q,
    max_k,
    is_causal=False,
    scale=None,
    window_size=None,
    enable_gqa=False,
    seqused_k=None,
    block_table=None,
    num_splits=None,
):
    window = _window(is_causal, *(window_size or (-1, -1)))
    output, logsumexp, state = _forward(
        query, key, value, cu_seq_q, cu_seq_k, max_q, max_k, 0.0, window, scale, seqused_k,
        block_table, jax.random.key(0),
    )  # fmt: skip
    return output, logsumexp, jnp.zeros_like(state)


@lowering("torch_attn::_varlen_attn_out", static=("scale",))
def _varlen_attn_out(out, *args):
    output, logsumexp, _ = _varlen_attn(*args)
    return logsumexp, output


@lowering("torch_attn::_varlen_attn_backward", static=("scale",))
def _varlen_attn_backward(
    grad_out,
    query,
    key,
    value,
    out,
    lse,
    cu_seq_q,
    cu_seq_k,
    max_q,
    max_k,
    is_causal,
    rng_state,
    scale=None,
    window_size=None,
):
    window = _window(is_causal, *(window_size or (-1, -1)))
    return _backward(
        grad_out, query, key, value, out, lse, cu_seq_q, cu_seq_k, max_q, max_k, 0.0, window,
        rng_state, scale,
    )  # fmt: skip
