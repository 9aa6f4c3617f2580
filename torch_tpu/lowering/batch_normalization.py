"""Batch normalisation, its gradients, and its parts that synchronised batch norm is made of."""

import jax.numpy as jnp
import torch
from jax import lax

from torch_tpu.lowering import sizes
from torch_tpu.lowering.normalization import affine, asked_for, moments
from torch_tpu.lowering.promotion import promote
from torch_tpu.lowering.registry import lowering

aten = torch.ops.aten

_RUNNING = ("running_mean", "running_var")


def _all_but_channels(input):
    return (0, *range(2, input.ndim))


def _along_channels(channels, ndim):
    """A value for each channel (dim 1), broadcast along the input; None stays None."""
    return None if channels is None else channels.reshape(-1, *(1,) * (ndim - 2))


def _elements(input):
    """How many elements a channel has."""
    return sizes.count(input, _all_but_channels(input))


def _factor(rstd, weight):
    """One factor for each channel: a product less for each element."""
    return rstd if weight is None else rstd * weight


def _normalised(input, mean, rstd, weight, bias):
    mean, factor, bias = (
        _along_channels(each, input.ndim) for each in (mean, _factor(rstd, weight), bias)
    )
    return affine(input - mean, factor, bias)


def _moved(running, statistic, momentum):
    """The running statistic after a batch; None where none is kept."""
    if running is None:
        return None
    running, statistic, momentum = promote(running, statistic, momentum)
    return (1 - momentum) * running + momentum * statistic


def _statistics(input, running_mean, running_var, momentum):
    """Mean and biased variance of a batch, and the running ones after it (unbiased variance)."""
    mean, variance = moments(input, _all_but_channels(input))
    count = jnp.asarray(_elements(input), input.dtype)
    unbiased = variance * (count / (count - 1))
    moved = (_moved(running_mean, mean, momentum), _moved(running_var, unbiased, momentum))
    return mean, variance, *moved


@lowering(
    aten._native_batch_norm_legit_functional.default,
    static=("eps",),
)
@lowering(aten.native_batch_norm.default, static=("eps",), writes=_RUNNING)
def native_batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps):
    wide, weight, bias = promote(input, weight, bias)
    if not training:
        mean, variance = promote(wide, running_mean, running_var)[1:]
        none = jnp.zeros(0, wide.dtype)
        output = _normalised(wide, mean, lax.rsqrt(variance + eps), weight, bias)
        return output, none, none, running_mean, running_var
    mean, variance, *running = _statistics(wide, running_mean, running_var, momentum)
    rstd = lax.rsqrt(variance + eps)
    return _normalised(wide, mean, rstd, weight, bias), mean, rstd, *running


@lowering(aten._native_batch_norm_legit.no_stats, static=("eps",))
def _native_batch_norm_legit_no_stats(input, weight, bias, training, momentum, eps):
    return native_batch_norm(input, weight, bias, None, None, training, momentum, eps)[:3]


@lowering(aten._native_batch_norm_legit_no_training.default, static=("eps",))
def _native_batch_norm_legit_no_training(
    input, weight, bias, running_mean, running_var, momentum, eps
):
    return native_batch_norm(input, weight, bias, running_mean, running_var, False, momentum, eps)[
        :3
    ]


def _reserve():
    """What cuDNN keeps for its backward; nothing here."""
    return jnp.zeros(0, jnp.uint8)


@lowering(aten._batch_norm_with_update_functional.default, static=("eps",))
def _batch_norm_with_update_functional(
    input, weight, bias, running_mean, running_var, momentum, eps
):
    output, mean, rstd, *running = native_batch_norm(
        input, weight, bias, running_mean, running_var, True, momentum, eps
    )
    return output, mean, rstd, _reserve(), *running


@lowering(aten._batch_norm_no_update.default, static=("eps",))
def _batch_norm_no_update(input, weight, bias, running_mean, running_var, momentum, eps):
    output, mean, rstd, *_ = native_batch_norm(
        input, weight, bias, running_mean, running_var, False, momentum, eps
    )
    return output, mean, rstd, _reserve()


@lowering(aten.native_batch_norm_backward.default, static=("eps",))
def native_batch_norm_backward(
    grad_out,
    input,
    weight,
    running_mean,
    running_var,
    save_mean,
    save_invstd,
    train,
    eps,
    output_mask,
):
    if train:
        mean, rstd = save_mean, save_invstd
    else:
        (variance,) = promote(running_var)
        mean, rstd = running_mean, lax.rsqrt(variance + eps)
    sum_dy, sum_dy_xmu, grad_weight, grad_bias = batch_norm_backward_reduce(
        grad_out, input, mean, rstd, weight, True, True, True
    )

    def grad_input():
        if train:
            count = jnp.asarray(_elements(input))
            return batch_norm_backward_elemt(
                grad_out, input, mean, rstd, weight, sum_dy, sum_dy_xmu, count
            )
        # The statistics are constants: nothing passes through them.
        grad, *channels = promote(grad_out, rstd, weight)
        return grad * _along_channels(_factor(*channels), grad.ndim)

    return asked_for(output_mask, grad_input, lambda: grad_weight, lambda: grad_bias)


@lowering(aten.batch_norm_backward.default, static=("eps",))
def batch_norm_backward(
    grad_out,
    input,
    weight,
    running_mean,
    running_var,
    save_mean,
    save_var,
    update,
    eps,
    output_mask,
    reserve,
):
    return native_batch_norm_backward(
        grad_out,
        input,
        weight,
        running_mean,
        running_var,
        save_mean,
        save_var,
        update,
        eps,
        output_mask,
    )


# What torch.nn.SyncBatchNorm calls, with an exchange of statistics between the calls.


@lowering(aten.batch_norm_stats.default, static=("eps",))
def batch_norm_stats(input, eps):
    (input,) = promote(input)
    mean, variance = moments(input, _all_but_channels(input))
    return mean, lax.rsqrt(variance + eps)


@lowering(aten.batch_norm_update_stats.default, writes=_RUNNING)
def batch_norm_update_stats(input, running_mean, running_var, momentum):
    (input,) = promote(input)
    return _statistics(input, running_mean, running_var, momentum)


@lowering(aten.batch_norm_elemt.default, static=("eps",))
def batch_norm_elemt(input, weight, bias, mean, invstd, eps):
    input, weight, bias, mean, invstd = promote(input, weight, bias, mean, invstd)
    return _normalised(input, mean, invstd, weight, bias)


@lowering(aten.batch_norm_gather_stats_with_counts.default, static=("eps",), writes=_RUNNING)
def batch_norm_gather_stats_with_counts(
    input, mean, invstd, running_mean, running_var, momentum, eps, counts
):
    means, invstds = promote(mean, invstd)
    share = counts.astype(means.dtype).reshape(-1, 1)
    count = jnp.sum(share)
    mean = jnp.sum(means * share, axis=0) / count
    # Within each process, and between the processes' means.
    variances = 1 / jnp.square(invstds) - eps + jnp.square(means - mean)
    squares = jnp.sum(variances * share, axis=0)
    return (
        mean,
        lax.rsqrt(squares / count + eps),
        _moved(running_mean, mean, momentum),
        _moved(running_var, squares / (count - 1), momentum),
    )


@lowering(
    aten.batch_norm_gather_stats.default, static=("eps",), runtime=("count",), writes=_RUNNING
)
def batch_norm_gather_stats(input, mean, invstd, running_mean, running_var, momentum, eps, count):
    counts = jnp.full(mean.shape[0], count)
    return batch_norm_gather_stats_with_counts(
        input, mean, invstd, running_mean, running_var, momentum, eps, counts
    )


@lowering(aten.batch_norm_backward_reduce.default)
def batch_norm_backward_reduce(grad_out, input, mean, invstd, weight, input_g, weight_g, bias_g):
    grad_out, input, mean, invstd = promote(grad_out, input, mean, invstd)
    axes = _all_but_channels(input)
    sum_dy = jnp.sum(grad_out, axis=axes)
    sum_dy_xmu = jnp.sum(grad_out * (input - _along_channels(mean, input.ndim)), axis=axes)
    return (
        *((sum_dy, sum_dy_xmu) if input_g else (None, None)),
        sum_dy_xmu * invstd if weight_g else None,
        sum_dy if bias_g else None,
    )


@lowering(aten.batch_norm_backward_elemt.default)
def batch_norm_backward_elemt(grad_out, input, mean, invstd, weight, sum_dy, sum_dy_xmu, count):
    grad_out, input, mean, invstd, weight, sum_dy, sum_dy_xmu = promote(
        grad_out, input, mean, invstd, weight, sum_dy, sum_dy_xmu
    )
    count = jnp.sum(count).astype(sum_dy.dtype)
    slope = sum_dy_xmu / count * jnp.square(invstd)
    shift, slope, mean, factor = (
        _along_channels(each, input.ndim)
        for each in (sum_dy / count, slope, mean, _factor(invstd, weight))
    )
    return (grad_out - shift - (input - mean) * slope) * factor
