"""Softmax and log-softmax, and their gradients."""

import jax.numpy as jnp
import torch

from torch_tpu.lowering.promotion import cast, promote
from torch_tpu.lowering.registry import lowering

aten = torch.ops.aten


def _vectors(tensor):
    """The tensor in the dtype to compute in; a 0-dim one as one element, which has a dim 0."""
    (tensor,) = promote(tensor)
    return jnp.atleast_1d(tensor)


def _deviations(vectors, dim):
    """Below the largest along the dim, so that no exponential overflows.

    The initial value serves an empty dim, whose result is empty too.
    """
    return vectors - jnp.max(vectors, axis=dim, keepdims=True, initial=-jnp.inf)


def _normalised_exponentials(vectors, dim):
    exponentials = jnp.exp(_deviations(vectors, dim))
    return exponentials / jnp.sum(exponentials, axis=dim, keepdims=True)


@lowering(aten._softmax.default)
def _softmax(self, dim, half_to_float):
    return _normalised_exponentials(_vectors(self), dim).reshape(self.shape)


@lowering(aten._log_softmax.default)
def _log_softmax(self, dim, half_to_float):
    deviations = _deviations(_vectors(self), dim)
    total = jnp.sum(jnp.exp(deviations), axis=dim, keepdims=True)
    return (deviations - jnp.log(total)).reshape(self.shape)


@lowering(aten._softmax_backward_data.default)
def _softmax_backward_data(grad_output, output, dim, input_dtype):
    grad, probabilities = _vectors(grad_output), _vectors(output)
    products = grad * probabilities
    along = jnp.sum(products, axis=dim, keepdims=True)
    return (products - probabilities * along).reshape(output.shape)


@lowering(aten._log_softmax_backward_data.default)
def _log_softmax_backward_data(grad_output, output, dim, input_dtype):
    grad, logarithms = _vectors(grad_output), _vectors(output)
    total = jnp.sum(grad, axis=dim, keepdims=True)
    return (grad - jnp.exp(logarithms) * total).reshape(output.shape)


@lowering(aten._safe_softmax.default)
def _safe_softmax(self, dim, dtype=None):
    vectors = _vectors(self if dtype is None else cast(self, dtype))
    # Where all is masked there is nothing to share out: 0, not NaN.
    masked = jnp.all(vectors == -jnp.inf, axis=dim, keepdims=True)
    return jnp.where(masked, 0, _normalised_exponentials(vectors, dim)).reshape(self.shape)
