"""Vector norms, and distances between vectors with their gradients."""

import math

import jax.numpy as jnp
import numpy as np
import torch
from jax import lax

from torch_tpu.lowering import reductions
from torch_tpu.lowering.losses import _euclidean_dist
from torch_tpu.lowering.promotion import cast, promote
from torch_tpu.lowering.registry import lowering

aten = torch.ops.aten

# cdist's compute_mode; by default PyTorch multiplies matrices once either side has more rows.
_ALWAYS_MULTIPLY, _NEVER_MULTIPLY, _FEW_ROWS = 1, 2, 25


def _magnitude(self, p, dims, keepdim):
    """The p-norm over dims of an array in its compute dtype."""
    if p == 0:
        return jnp.sum(self != 0, dims, keepdims=keepdim).astype(self.real.dtype)
    if p == 2:
        square = self.real**2 + self.imag**2 if jnp.iscomplexobj(self) else self * self
        return jnp.sqrt(jnp.sum(square, dims, keepdims=keepdim))
    size = jnp.abs(self)
    if p == math.inf:
        return jnp.max(size, dims, keepdims=keepdim, initial=0)
    if p == -math.inf:
        return jnp.min(size, dims, keepdims=keepdim, initial=np.inf)
    if p == 1:
        return jnp.sum(size, dims, keepdims=keepdim)
    return jnp.sum(size**p, dims, keepdims=keepdim) ** (1 / p)


@lowering(aten.linalg_vector_norm.default, static=("ord",))
def linalg_vector_norm(self, ord=2, dim=None, keepdim=False, *, dtype=None):
    self = self if dtype is None else cast(self, dtype)
    return _magnitude(reductions.to_opmath(self), ord, reductions.axes(self, dim), keepdim)


@lowering(
    aten.norm.Scalar,
    aten.norm.ScalarOpt_dim,
    aten.norm.ScalarOpt_dim_dtype,
    aten.norm.ScalarOpt_dtype,
    static=("p",),
)
def norm(self, p=2, dim=None, keepdim=False, *, dtype=None):
    return linalg_vector_norm(self, 2 if p is None else p, dim, keepdim, dtype=dtype)


@lowering(aten.dist.default, static=("p",))
def dist(self, other, p=2):
    self, other = promote(self, other)
    return norm(self - other, p)


@lowering(aten.renorm.default, static=("p",))
def renorm(self, p, dim, maxnorm):
    wide = reductions.to_opmath(self)
    others = tuple(axis for axis in range(self.ndim) if axis != dim % self.ndim)
    size = _magnitude(wide, p, others, True)
    maxnorm = lax.convert_element_type(maxnorm, size.dtype)
    return wide * jnp.where(size > maxnorm, maxnorm / (size + np.array(1e-7, size.dtype)), 1)


def _differences(x1, x2):
    return x1[..., :, None, :] - x2[..., None, :, :]


@lowering(aten._cdist_forward.default, static=("p",))
def _cdist_forward(x1, x2, p, compute_mode):
    many = x1.shape[-2] > _FEW_ROWS or x2.shape[-2] > _FEW_ROWS
    multiply = compute_mode == _ALWAYS_MULTIPLY or (many and compute_mode != _NEVER_MULTIPLY)
    if p == 2 and multiply:
        return _euclidean_dist(x1, x2)
    difference = _differences(reductions.to_opmath(x1), reductions.to_opmath(x2))
    return _magnitude(difference, p, (difference.ndim - 1,), False)


@lowering(aten._cdist_backward.default, static=("p",))
def _cdist_backward(grad, x1, x2, p, cdist):
    if grad.size == 0:  # PyTorch leaves before x1 is broadcast
        return jnp.zeros_like(x1)
    difference = _differences(x1, x2)
    return jnp.sum(_distance_gradient(difference, grad[..., None], cdist[..., None], p), -2)


def _distance_gradient(difference, grad, distance, p):
    """grad times the derivative of the p-norm by each coordinate; 0 where the distance is 0."""
    size, sign = jnp.abs(difference), jnp.sign(difference)
    if p == 0:
        return jnp.zeros_like(difference)
    if p == 1:
        return grad * sign
    if p == math.inf:
        return grad * sign * (size == distance)
    away = distance != 0
    if p < 1:
        away = away & (difference != 0)
    divisor = jnp.where(away, distance, 1) ** (p - 1)
    power = difference if p == 2 else sign * jnp.where(away, size, 1) ** (p - 1)
    return jnp.where(away, power * grad / divisor, 0)


def _pairs(length):
    return np.triu_indices(length, 1)


@lowering(aten._pdist_forward.default, static=("p",))
def _pdist_forward(self, p=2.0):
    first, second = _pairs(self.shape[0])
    return _magnitude(self[first] - self[second], p, (1,), False)


@lowering(aten._pdist_backward.default, static=("p",))
def _pdist_backward(grad, self, p, pdist):
    def square(pairs):
        first, second = _pairs(self.shape[0])
        upper = jnp.zeros((self.shape[0],) * 2, pairs.dtype).at[first, second].set(pairs)
        return upper + upper.T

    return _cdist_backward(square(grad), self, self, p, square(pdist))
