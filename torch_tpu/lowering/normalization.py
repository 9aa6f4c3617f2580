"""Batch, layer, group, RMS and weight normalisation, and their gradients."""

import jax.numpy as jnp
import torch
from jax import lax

from torch_tpu.lowering import sizes
from torch_tpu.lowering.promotion import promote
from torch_tpu.lowering.registry import lowering
from torch_tpu.lowering.sums import sum_along

aten = torch.ops.aten


def moments(input, axes, keepdims=False):
    """Mean and biased variance. The variance is that of the deviations, as PyTorch's: the
    difference of two large squares would lose it."""
    count = sizes.count(input, axes)
    mean = jnp.sum(sizes.filled(input, 0, axes), axis=axes, keepdims=True) / count
    deviations = sizes.filled(sizes.like(input - mean, input), 0, axes)
    variance = jnp.sum(jnp.square(deviations), axis=axes, keepdims=keepdims) / count
    return mean if keepdims else mean.reshape(variance.shape), variance


def affine(normalised, weight, bias):
    """Times weight plus bias, where given; both broadcast."""
    if weight is not None:
        normalised = normalised * weight
    return normalised if bias is None else normalised + bias


def _input_gradient(grad, normalised, rstd, mean, along):
    """Through the mean and the variance too: what is left is orthogonal to both.

    ``mean`` is that of ``grad``, ``along`` that of its products with ``normalised``.
    """
    return rstd * (grad - mean - normalised * along)


def asked_for(output_mask, *gradients):
    """Each gradient that is asked for, computed only then."""
    return tuple(
        gradient() if wanted else None
        for wanted, gradient in zip(output_mask, gradients, strict=True)
    )


# Layer and RMS normalisation: over the trailing dims of ``normalized_shape``.


def _trailing_dims(input, normalized_shape):
    split = input.ndim - len(normalized_shape)
    return tuple(range(split)), tuple(range(split, input.ndim))


@lowering(aten.native_layer_norm.default, static=("eps",))
def native_layer_norm(input, normalized_shape, weight, bias, eps):
    _, axes = _trailing_dims(input, normalized_shape)
    input, weight, bias = promote(input, weight, bias)
    mean, variance = moments(input, axes, keepdims=True)
    rstd = lax.rsqrt(variance + eps)
    return affine((input - mean) * rstd, weight, bias), mean, rstd


@lowering(aten.native_layer_norm_backward.default)
def native_layer_norm_backward(
    grad_out, input, normalized_shape, mean, rstd, weight, bias, output_mask
):
    rows, axes = _trailing_dims(input, normalized_shape)
    grad_out, input, mean, rstd, weight = promote(grad_out, input, mean, rstd, weight)
    normalised = (input - mean) * rstd
    products = grad_out * normalised
    count = sizes.count(input, axes)

    def grad_input():
        along, mean_grad = (sum_along(each, axes, weight) / count for each in (products, grad_out))
        grad = affine(grad_out, weight, None)
        return _input_gradient(grad, normalised, rstd, mean_grad, along)

    def over_rows(tensor):
        return sum_along(tensor, rows).reshape(normalized_shape)

    return asked_for(
        output_mask, grad_input, lambda: over_rows(products), lambda: over_rows(grad_out)
    )


@lowering(aten._fused_rms_norm.default, static=("eps",))
def _fused_rms_norm(input, normalized_shape, weight, eps):
    _, axes = _trailing_dims(input, normalized_shape)
    input, weight = promote(input, weight)
    eps = jnp.finfo(input.dtype).eps if eps is None else eps
    rstd = lax.rsqrt(sum_along(jnp.square(input), axes) / sizes.count(input, axes) + eps)
    return affine(input * rstd, weight, None), rstd


@lowering(aten._fused_rms_norm_backward.default)
def _fused_rms_norm_backward(grad_out, input, normalized_shape, rstd, weight, output_mask):
    rows, axes = _trailing_dims(input, normalized_shape)
    grad_out, input, rstd, weight = promote(grad_out, input, rstd, weight)
    normalised = input * rstd
    products = grad_out * normalised

    def grad_input():
        along = sum_along(products, axes, weight) / sizes.count(input, axes)
        return _input_gradient(affine(grad_out, weight, None), normalised, rstd, 0, along)

    return asked_for(
        output_mask, grad_input, lambda: sum_along(products, rows).reshape(normalized_shape)
    )


# Group normalisation: over the channels of a group and all positions.


def _grouped(tensor, N, C, HxW, group):
    return sizes.reshape(tensor, (N, group, C // group, HxW))


def _by_group(channels, group):
    """A value for each channel, broadcast along what ``_grouped`` gives."""
    return None if channels is None else channels.reshape(1, group, -1, 1)


@lowering(aten.native_group_norm.default, static=("eps",))
def native_group_norm(input, weight, bias, N, C, HxW, group, eps):
    shape = sizes.sizes_of(input)
    input, weight, bias = promote(input, weight, bias)
    grouped = _grouped(input, N, C, HxW, group)
    mean, variance = moments(grouped, (2, 3), keepdims=True)
    rstd = lax.rsqrt(variance + eps)
    scaled = affine((grouped - mean) * rstd, _by_group(weight, group), _by_group(bias, group))
    scaled = sizes.reshape(sizes.like(scaled, grouped), shape)
    return scaled, mean.reshape(N, group), rstd.reshape(N, group)


@lowering(aten.native_group_norm_backward.default)
def native_group_norm_backward(grad_out, input, mean, rstd, weight, N, C, HxW, group, output_mask):
    shape = sizes.sizes_of(input)
    grad_out, input, mean, rstd, weight = promote(grad_out, input, mean, rstd, weight)
    grad, grouped = (_grouped(tensor, N, C, HxW, group) for tensor in (grad_out, input))
    mean, rstd = (moment.reshape(N, group, 1, 1) for moment in (mean, rstd))
    normalised = (grouped - mean) * rstd
    sums = [sum_along(each, (3,)) for each in (grad * normalised, grad)]
    count = sizes.count(grouped, (2, 3))

    def grad_input():
        factor = _by_group(weight, group)
        along, mean_grad = (
            jnp.sum(affine(each, factor, None), axis=2, keepdims=True) / count for each in sums
        )
        scaled = affine(grad, factor, None)
        grad_input = _input_gradient(scaled, normalised, rstd, mean_grad, along)
        return sizes.reshape(sizes.like(grad_input, grouped), shape)

    return asked_for(
        output_mask,
        grad_input,
        lambda: jnp.sum(sums[0], axis=0).reshape(C),
        lambda: jnp.sum(sums[1], axis=0).reshape(C),
    )


# Weight normalisation: the direction of ``v``, the length of ``g`` along ``dim``.


def _all_but(dim, ndim):
    return tuple(axis for axis in range(ndim) if axis != dim % ndim)


@lowering(aten._weight_norm_interface.default)
def _weight_norm_interface(v, g, dim=0):
    v, g = promote(v, g)
    norms = jnp.sqrt(jnp.sum(jnp.square(v), axis=_all_but(dim, v.ndim), keepdims=True))
    return v * (g / norms), norms


@lowering(aten._weight_norm_interface_backward.default)
def _weight_norm_interface_backward(grad_w, saved_v, saved_g, saved_norms, dim):
    grad_w, v, g, norms = promote(grad_w, saved_v, saved_g, saved_norms)
    along = jnp.sum(grad_w * v, axis=_all_but(dim, v.ndim), keepdims=True) / norms
    return (g / norms) * (grad_w - v * (along / norms)), along
