"""Fused optimizer steps over lists of parameters."""

import jax.numpy as jnp
import torch

from torch_tpu.lowering import dtypes
from torch_tpu.lowering.promotion import cast
from torch_tpu.lowering.registry import lowering

aten = torch.ops.aten


def _step(update, columns, maximize, grad_scale, found_inf):
    """New lists for (params, grads, *states) from ``update(param, grad, *state)``.

    The update works in the parameter's compute dtype, on a gradient that is unscaled and signed,
    and returns the new param and state. Gradients come back unscaled, as PyTorch leaves them.
    An empty list of states gives None to each update and stays empty.
    """
    count = len(columns[0])
    rows = zip(*(column or [None] * count for column in columns), strict=True)
    new = [_step_one(update, row, maximize, grad_scale, found_inf) for row in rows]
    return tuple(
        [row[place] for row in new] if column else [] for place, column in enumerate(columns)
    )


def _step_one(update, row, maximize, grad_scale, found_inf):
    compute = dtypes.opmath(dtypes.to_torch(row[0].dtype))
    old = [None if x is None else cast(x, compute) for x in row]
    param, grad, *state = old
    if grad_scale is not None:
        grad = grad / cast(jnp.reshape(grad_scale, ()), compute)
    new_param, *new_state = update(param, -grad if maximize else grad, *state)
    new = [new_param, grad, *new_state]
    if found_inf is None:
        return new
    skip = jnp.reshape(found_inf, ()) == 1
    return [
        None if after is None else jnp.where(skip, before, after)
        for before, after in zip(old, new, strict=True)
    ]


def _as(number, like):
    """A number, or a learning rate of one element, as a 0-d array of the dtype of ``like``."""
    return jnp.reshape(jnp.asarray(number), ()).astype(like.dtype)


def _bias_correction(beta, step):
    """1 - beta**step without the cancellation of the first steps, and without float64 powers."""
    return -jnp.expm1(step * jnp.log1p(_as(beta - 1, step)))


def _adam(decoupled_weight_decay):
    def rule(
        self,
        grads,
        exp_avgs,
        exp_avg_sqs,
        max_exp_avg_sqs,
        state_steps,
        *,
        lr,
        beta1,
        beta2,
        weight_decay,
        eps,
        amsgrad,
        maximize,
        grad_scale=None,
        found_inf=None,
    ):
        def update(param, grad, exp_avg, exp_avg_sq, max_exp_avg_sq, step):
            rate, decay = _as(lr, param), _as(weight_decay, param)
            if decoupled_weight_decay:
                param = param - rate * decay * param
            else:
                grad = grad + decay * param
            exp_avg = exp_avg + _as(1 - beta1, param) * (grad - exp_avg)
            exp_avg_sq = _as(beta2, param) * exp_avg_sq + _as(1 - beta2, param) * grad * grad
            second = exp_avg_sq
            if amsgrad:
                second = max_exp_avg_sq = jnp.maximum(max_exp_avg_sq, exp_avg_sq)
            root = jnp.sqrt(second) / jnp.sqrt(_bias_correction(beta2, step))
            size = rate / _bias_correction(beta1, step)
            param = param - size * exp_avg / (root + _as(eps, param))
            return param, exp_avg, exp_avg_sq, max_exp_avg_sq, step

        columns = self, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps
        return _step(update, columns, maximize, grad_scale, found_inf)[:-1]

    return rule


lowering(aten._fused_adam.default, aten._fused_adam.tensor_lr)(_adam(False))
lowering(aten._fused_adamw.default, aten._fused_adamw.tensor_lr)(_adam(True))


@lowering(aten._fused_sgd.default, aten._fused_sgd.tensor_lr)
def _fused_sgd(
    self,
    grads,
    momentum_buffer_list,
    *,
    weight_decay,
    momentum,
    lr,
    dampening,
    nesterov,
    maximize,
    is_first_step,
    grad_scale=None,
    found_inf=None,
):
    def update(param, grad, buffer):
        grad = grad + _as(weight_decay, param) * param
        if buffer is not None:
            keep = _as(momentum, param)
            decayed = keep * buffer + _as(1 - dampening, param) * grad
            buffer = grad if is_first_step else decayed
            grad = grad + keep * buffer if nesterov else buffer
        return param - _as(lr, param) * grad, buffer

    columns = self, grads, momentum_buffer_list
    return _step(update, columns, maximize, grad_scale, found_inf)


@lowering(aten._fused_adagrad.default, aten._fused_adagrad.tensor_lr)
def _fused_adagrad(
    self,
    grads,
    state_sums,
    state_steps,
    *,
    lr,
    lr_decay,
    weight_decay,
    eps,
    maximize,
    grad_scale=None,
    found_inf=None,
):
    def update(param, grad, state_sum, step):
        grad = grad + _as(weight_decay, param) * param
        rate = _as(lr, param) / (1 + (step - 1) * _as(lr_decay, param))
        state_sum = state_sum + grad * grad
        return param - rate * grad / (jnp.sqrt(state_sum) + _as(eps, param)), state_sum, step

    columns = self, grads, state_sums, state_steps
    return _step(update, columns, maximize, grad_scale, found_inf)
