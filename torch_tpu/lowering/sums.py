"""Weighted sums along leading or trailing axes, in the form that a platform runs fastest."""

import math

import jax.numpy as jnp
from jax import lax

from torch_tpu.lowering.platforms import by_platform


def sum_along(array, axes, weights=None):
    """The sum over ``axes``, kept as dims of 1, of the elements times weights of the axes' shape.

    XLA:CPU hands a sum together with the arithmetic around it to a library whose loops are two to
    three times as slow as its own; a product with a vector leaves it the arithmetic. Elsewhere a
    sum fuses with what it reads.
    """
    shape = tuple(array.shape[axis] for axis in axes)
    weights = jnp.ones(shape, array.dtype) if weights is None else weights
    others = tuple(axis for axis in range(array.ndim) if axis not in axes)
    kept = tuple(1 if axis in axes else size for axis, size in enumerate(array.shape))

    def product(array, weights):
        weights = weights.reshape(-1)
        if axes and axes[0] == 0:
            operands = weights, array.reshape(weights.size, math.prod(kept))
        else:
            operands = array.reshape(math.prod(kept), weights.size), weights
        return jnp.matmul(*operands, precision=lax.Precision.HIGHEST).reshape(kept)

    def multiply_and_sum(array, weights):
        products = array * jnp.expand_dims(weights, others)
        return jnp.sum(products, axis=tuple(axes), keepdims=True)

    return by_platform(array, weights, cpu=product, default=multiply_and_sum)


def apart(sums):
    """Sums that a loop over what was summed reads again; on a CPU they stay out of that loop.

    XLA:CPU would hand the loop, too, to the library that sums.
    """
    return by_platform(sums, cpu=lax.optimization_barrier, default=lambda sums: sums)
