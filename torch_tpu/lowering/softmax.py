"""Softmax and log-softmax, safe and masked softmax, and their gradients."""

import jax.numpy as jnp
import torch

from torch_tpu.lowering import sizes
from torch_tpu.lowering.promotion import cast, promote
from torch_tpu.lowering.registry import lowering
from torch_tpu.lowering.sums import apart

aten = torch.ops.aten


def _vectors(tensor):
    """The tensor in the dtype to compute in; a 0-dim one as one element, which has a dim 0."""
    (tensor,) = promote(tensor)
    return tensor if tensor.ndim else tensor.reshape(1)


def _deviations(vectors, dim):
    """Below the largest along the dim, so that no exponential overflows.

    The initial value serves an empty dim, whose result is empty too.
    """
    vectors = sizes.filled(vectors, -jnp.inf, (dim % vectors.ndim,))
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
    along = apart(jnp.sum(grad * probabilities, axis=dim, keepdims=True))
    return (probabilities * (grad - along)).reshape(output.shape)


@lowering(aten._log_softmax_backward_data.default)
def _log_softmax_backward_data(grad_output, output, dim, input_dtype):
    grad, logarithms = _vectors(grad_output), _vectors(output)
    total = apart(jnp.sum(grad, axis=dim, keepdims=True))
    return (grad - jnp.exp(logarithms) * total).reshape(output.shape)


@lowering(aten._safe_softmax.default)
def _safe_softmax(self, dim, dtype=None):
    vectors = _vectors(self if dtype is None else cast(self, dtype))
    # Where all is masked there is nothing to share out: 0, not NaN.
    vectors = sizes.filled(vectors, -jnp.inf)
    masked = jnp.all(vectors == -jnp.inf, axis=dim, keepdims=True)
    return jnp.where(masked, 0, _normalised_exponentials(vectors, dim)).reshape(self.shape)


# What a mask of _masked_softmax covers when it's smaller than the (batch, heads, queries, keys)
# scores: (queries, keys), or with this type (batch, keys).
_KEY_PADDING = 1


@lowering(aten._masked_softmax.default)
def _masked_softmax(self, mask, dim=None, mask_type=None):
    if mask_type == _KEY_PADDING and mask.ndim == 2 and self.ndim == 4:
        mask = mask[:, None, None, :]
    vectors = jnp.where(jnp.broadcast_to(mask, self.shape), -jnp.inf, *promote(self))
    vectors = sizes.like(vectors, self)
    return _softmax(vectors, -1 if dim is None else dim, False)


@lowering(aten._masked_softmax_backward.default)
def _masked_softmax_backward(grad_output, output, mask, dim=None):
    # What is masked takes no part, not even through a NaN in its gradient.
    grad_output, output = (jnp.where(mask, 0, *promote(each)) for each in (grad_output, output))
    return _softmax_backward_data(grad_output, output, -1 if dim is None else dim, None)
