"""Scaled dot product attention, forward and backward, and the fused layers built on it."""

import jax
import jax.numpy as jnp
import numpy as np
import torch
from jax import lax

from torch_tpu.lowering import dtypes, sizes
from torch_tpu.lowering.matmul import contract, product
from torch_tpu.lowering.promotion import cast
from torch_tpu.lowering.random import keep_mask
from torch_tpu.lowering.registry import lowering

aten = torch.ops.aten

HEADS = ((0, 1), (0, 1))  # the batch dims of every product here


def _opmath(operand):
    return cast(operand, dtypes.opmath(dtypes.to_torch(operand.dtype)))


def by_key_head(operand, key_heads):
    """Query heads that share a key head (grouped-query attention), laid one after another."""
    batch, heads, rows, size = operand.shape
    return operand.reshape(batch, key_heads, heads // key_heads * rows, size)


def _factor(query, scale):
    if scale is not None:
        return scale
    size = sizes.size(query, 3)
    if not sizes.is_traced(size):
        return size**-0.5
    return lax.rsqrt(size.astype(jnp.promote_types(query.dtype, jnp.float32)))


def _scores(query, key, attn_bias, is_causal, scale):
    """What the softmax is taken of: (batch, heads, rows, columns), -inf where masked."""
    shape = (*query.shape[:3], key.shape[2])
    scores = contract(by_key_head(query, key.shape[1]), key, ((3,), (3,)), HEADS)
    scores = scores.reshape(shape) * _factor(query, scale)
    if attn_bias is not None and attn_bias.dtype == jnp.bool_:
        scores = jnp.where(attn_bias, scores, -jnp.inf)
    elif attn_bias is not None:
        scores = scores + attn_bias
    if 2 in sizes.dynamic_dims(key):
        column = lax.broadcasted_iota(jnp.int32, shape, 3)
        scores = jnp.where(column < sizes.size(key, 2), scores, -jnp.inf)
    if is_causal:
        row, column = (lax.broadcasted_iota(jnp.int32, shape[2:], axis) for axis in (0, 1))
        scores = jnp.where(row >= column, scores, -jnp.inf)
    return scores


def finite(extreme):
    """0 for the -inf of a row that is masked altogether, whose weights then come out as 0."""
    return jnp.where(extreme == -jnp.inf, 0, extreme)


def softmax_parts(scores):
    """Unnormalised weights, their sums and the logarithm of those before the shift."""
    largest = finite(jnp.max(scores, axis=-1, keepdims=True, initial=-jnp.inf))
    weights = jnp.exp(scores - largest)
    total = jnp.sum(weights, axis=-1, keepdims=True)
    return weights, total, largest + jnp.log(total)


def _dropout_factor(words, shape, dropout_p, dtype):
    """What dropout multiplies the weights by, drawn from the two words of a key."""
    generator = jax.random.wrap_key_data(words, impl="threefry2x32")
    kept = keep_mask(generator, shape, 1 - dropout_p)
    return jnp.where(kept, np.array(1 / (1 - dropout_p) if dropout_p < 1 else 0, dtype), 0)


def _batched(*operands):
    """Operands with a batch dim, which PyTorch lets be absent."""
    return (
        sizes.sized(operand[None], (1, *sizes.sizes_of(operand))) if operand.ndim == 3 else operand
        for operand in operands
    )


def attend(query, key, value, attn_bias, dropout_p, is_causal, scale, generator):
    """The output, its logsumexp and the key's two words, which are enough to drop again."""
    shape = (*query.shape[:-1], value.shape[-1])
    query, key, value = _batched(query, key, value)
    scores = _scores(query, key, attn_bias, is_causal, scale)
    weights, total, logsumexp = softmax_parts(scores)
    words = jax.random.key_data(generator)
    if dropout_p:
        weights = weights * _dropout_factor(words, weights.shape, dropout_p, weights.dtype)
    weights = by_key_head(weights.astype(value.dtype), key.shape[1])
    output = contract(weights, value, ((3,), (2,)), HEADS)
    output = output.reshape(*query.shape[:3], value.shape[3]) / jnp.where(total == 0, 1, total)
    return output.reshape(shape), logsumexp[..., 0], *words.astype(jnp.int64)


def attend_backward(
    grad_out, query, key, value, attn_bias, out, logsumexp, dropout_p, is_causal, scale, words
):
    """Gradients of query, key, value and of the scores, which are those of a full bias."""
    shapes = query.shape, key.shape, value.shape
    grad_out, query, key, value, out = _batched(grad_out, query, key, value, out)
    key_heads = key.shape[1]
    scores = _scores(query, key, attn_bias, is_causal, scale)
    if logsumexp.dtype != scores.dtype:  # PyTorch keeps float32 of it beside float64 inputs
        logsumexp = softmax_parts(scores)[2][..., 0]
    weights = jnp.exp(scores - finite(logsumexp)[..., None])
    dropped = weights

    rows = by_key_head(grad_out.astype(value.dtype), key_heads)
    grad_weights = contract(rows, value, ((3,), (3,)), HEADS).reshape(weights.shape)
    if dropout_p:
        factor = _dropout_factor(words, weights.shape, dropout_p, weights.dtype)
        grad_weights, dropped = grad_weights * factor, dropped * factor
    if out.dtype == weights.dtype:
        mean = jnp.sum(grad_out * out, axis=-1, keepdims=True)
    else:  # a narrow output was rounded: what it is the sum of is more exact
        mean = jnp.sum(grad_weights * weights, axis=-1, keepdims=True)
    grad_scores = weights * (grad_weights - mean)

    scaled = by_key_head((grad_scores * _factor(query, scale)).astype(key.dtype), key_heads)
    dropped = by_key_head(dropped.astype(value.dtype), key_heads)
    grads = (
        contract(scaled, key, ((3,), (2,)), HEADS),
        contract(scaled, by_key_head(query, key_heads), ((2,), (2,)), HEADS),
        contract(dropped, rows, ((2,), (2,)), HEADS),
    )
    grads = (grad.reshape(shape) for grad, shape in zip(grads, shapes, strict=True))
    return *grads, grad_scores


def _sum_to(grad, shape):
    """A gradient reduced to the shape that was broadcast to its own."""
    grad = jnp.sum(grad, tuple(range(grad.ndim - len(shape))))
    spread = tuple(axis for axis, size in enumerate(shape) if size != grad.shape[axis])
    return jnp.sum(grad, spread, keepdims=True)


def _wanted(grads, attn_bias, grad_input_mask):
    """The gradients that are asked for, that of the bias in the bias's shape."""
    *grads, grad_scores = grads
    bias_has_one = attn_bias is not None and attn_bias.dtype != jnp.bool_ and grad_input_mask[3]
    grads.append(_sum_to(grad_scores, attn_bias.shape) if bias_has_one else None)
    return tuple(
        grad if asked else None for grad, asked in zip(grads, grad_input_mask, strict=True)
    )


@lowering(
    aten._scaled_dot_product_fused_attention_overrideable.default, static=("dropout_p", "scale")
)
def _scaled_dot_product_fused_attention_overrideable(
    query,
    key,
    value,
    attn_bias=None,
    dropout_p=0.0,
    is_causal=False,
    return_debug_mask=False,
    *,
    scale=None,
    generator,
):
    output, logsumexp, philox_seed, philox_offset = attend(
        query, key, value, attn_bias, dropout_p, is_causal, scale, generator
    )
    max_q, max_k = sizes.size(query, -2), sizes.size(key, -2)
    return output, logsumexp, None, None, max_q, max_k, philox_seed, philox_offset, None


@lowering(
    aten._scaled_dot_product_fused_attention_overrideable_backward.default,
    static=("dropout_p", "scale"),
)
def _scaled_dot_product_fused_attention_overrideable_backward(
    grad_out,
    query,
    key,
    value,
    attn_bias,
    grad_input_mask,
    out,
    logsumexp,
    cum_seq_q,
    cum_seq_k,
    max_q,
    max_k,
    dropout_p,
    is_causal,
    philox_seed,
    philox_offset,
    *,
    scale=None,
):
    words = jnp.stack([philox_seed, philox_offset]).astype(jnp.uint32)
    grads = attend_backward(
        grad_out, query, key, value, attn_bias, out, logsumexp, dropout_p, is_causal, scale, words
    )
    return _wanted(grads, attn_bias, grad_input_mask)


@lowering(aten._scaled_dot_product_flash_attention_for_cpu.default, static=("dropout_p", "scale"))
def _scaled_dot_product_flash_attention_for_cpu(
    query,
    key,
    value,
    dropout_p=0.0,
    is_causal=False,
    *,
    attn_mask=None,
    scale=None,
    generator,
):
    return attend(query, key, value, attn_mask, dropout_p, is_causal, scale, generator)[:2]


@lowering(
    aten._scaled_dot_product_flash_attention_for_cpu_backward.default,
    static=("dropout_p", "scale"),
)
def _scaled_dot_product_flash_attention_for_cpu_backward(
    grad_out,
    query,
    key,
    value,
    out,
    logsumexp,
    dropout_p,
    is_causal,
    *,
    attn_mask=None,
    scale=None,
):
    # PyTorch refuses dropout here: there is no seed to drop again with.
    return attend_backward(
        grad_out, query, key, value, attn_mask, out, logsumexp, 0, is_causal, scale, None
    )[:3]


@lowering(aten._scaled_dot_product_efficient_attention.default, static=("dropout_p", "scale"))
def _scaled_dot_product_efficient_attention(
    query,
    key,
    value,
    attn_bias,
    compute_log_sumexp,
    dropout_p=0.0,
    is_causal=False,
    *,
    scale=None,
    generator,
):
    output, logsumexp, philox_seed, philox_offset = attend(
        query, key, value, attn_bias, dropout_p, is_causal, scale, generator
    )
    # PyTorch promises rows in blocks of 32.
    padding = ((0, 0), (0, 0), (0, -query.shape[2] % 32))
    logsumexp = jnp.pad(logsumexp, padding) if compute_log_sumexp else logsumexp[..., :0]
    return output, logsumexp, philox_seed, philox_offset


@lowering(
    aten._scaled_dot_product_efficient_attention_backward.default, static=("dropout_p", "scale")
)
def _scaled_dot_product_efficient_attention_backward(
    grad_out_,
    query,
    key,
    value,
    attn_bias,
    out,
    logsumexp,
    philox_seed,
    philox_offset,
    dropout_p,
    grad_input_mask,
    is_causal=False,
    *,
    scale=None,
    generator,
):
    # PyTorch tags this op as random though all of its draws were made in the forward.
    rows = logsumexp[..., : query.shape[2]]
    words = jnp.stack([philox_seed, philox_offset]).astype(jnp.uint32)
    grads = attend_backward(
        grad_out_, query, key, value, attn_bias, out, rows, dropout_p, is_causal, scale, words
    )
    return _wanted(grads, attn_bias, grad_input_mask)


def _mask_of_scores(mask, mask_type, shape):
    """A mask of the layers below, True where masked, against (batch, heads, rows, columns)."""
    if mask_type == 1:  # of the keys: (batch, columns)
        mask = mask[:, None, None, :]
    return jnp.broadcast_to(mask, shape)


def _linear(input, weight, bias):
    """x @ weight.T + bias as one product of two matrices, rounded as its own op would be."""
    rows = input.reshape(-1, input.shape[-1])
    result = contract(rows, weight, ((1,), (1,))) + bias
    return result.astype(input.dtype).reshape(*input.shape[:-1], weight.shape[0])


@lowering(aten._native_multi_head_attention.default)
def _native_multi_head_attention(
    query,
    key,
    value,
    embed_dim,
    num_head,
    qkv_weight,
    qkv_bias,
    proj_weight,
    proj_bias,
    mask=None,
    need_weights=True,
    average_attn_weights=True,
    mask_type=None,
):
    weights, biases = (jnp.split(operand, 3) for operand in (qkv_weight, qkv_bias))
    query, key, value = (
        _linear(operand, weight, bias).reshape(*operand.shape[:2], num_head, -1).swapaxes(1, 2)
        for operand, weight, bias in zip((query, key, value), weights, biases, strict=True)
    )
    scores = _scores(query, key, None, False, None)
    if mask is not None:
        scores = jnp.where(_mask_of_scores(mask, mask_type, scores.shape), -jnp.inf, scores)
    weights = jax.nn.softmax(scores).astype(query.dtype)
    context = product(weights, value).astype(query.dtype).swapaxes(1, 2)
    output = _linear(context.reshape(*context.shape[:2], embed_dim), proj_weight, proj_bias)
    if not need_weights:
        return output, None
    return output, jnp.mean(_opmath(weights), 1) if average_attn_weights else weights


def _layer_norm(input, weight, bias, eps):
    centred = _opmath(input) - jnp.mean(_opmath(input), -1, keepdims=True)
    scale = lax.rsqrt(jnp.mean(centred**2, -1, keepdims=True) + eps)
    return (centred * scale * weight + bias).astype(input.dtype)


@lowering(aten._transformer_encoder_layer_fwd.default)
def _transformer_encoder_layer_fwd(
    src,
    embed_dim,
    num_heads,
    qkv_weight,
    qkv_bias,
    proj_weight,
    proj_bias,
    use_gelu,
    norm_first,
    eps,
    norm_weight_1,
    norm_bias_1,
    norm_weight_2,
    norm_bias_2,
    ffn_weight_1,
    ffn_bias_1,
    ffn_weight_2,
    ffn_bias_2,
    mask=None,
    mask_type=None,
):
    activation = (lambda x: jax.nn.gelu(x, approximate=False)) if use_gelu else jax.nn.relu

    def attention(x):
        projections = (qkv_weight, qkv_bias, proj_weight, proj_bias)
        return _native_multi_head_attention(
            x, x, x, embed_dim, num_heads, *projections, mask, False, True, mask_type
        )[0]

    def feed_forward(x):
        return _linear(activation(_linear(x, ffn_weight_1, ffn_bias_1)), ffn_weight_2, ffn_bias_2)

    blocks = (
        (attention, norm_weight_1, norm_bias_1),
        (feed_forward, norm_weight_2, norm_bias_2),
    )
    x = src
    for block, weight, bias in blocks:
        if norm_first:
            x = x + block(_layer_norm(x, weight, bias, eps))
        else:
            x = _layer_norm(x + block(x), weight, bias, eps)
    return x
