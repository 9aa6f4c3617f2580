"""Average pooling over windows, sliding or adaptive, and its gradients."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import torch
from jax import lax

from torch_tpu.lowering.promotion import promote
from torch_tpu.lowering.registry import lowering
from torch_tpu.lowering.windows import sliding, window_sums, window_sums_transposed

aten = torch.ops.aten


def adaptive_bounds(size, count):
    """Where each of ``count`` windows that cover a dim starts and ends."""
    places = np.arange(count)
    return places * size // count, -(-(places + 1) * size // count)


class _Average(NamedTuple):
    """The sums of some windows, the gradient of that (for a shape), and what divides both."""

    sums: Callable[[jax.Array], jax.Array]
    transposed: Callable[[jax.Array, tuple[int, ...]], jax.Array]
    lengths: tuple[Any, ...]  # broadcast, their product is the divisor

    def forward(self, input):
        (input,) = promote(input)
        return _divided(self.sums(input), self.lengths)

    def backward(self, grad_output, shape):
        (grad,) = promote(grad_output)
        return self.transposed(_divided(grad, self.lengths), shape)


def _lengths(sizes, windows, count_include_pad):
    """How many elements each window counts in each dim."""
    for size, window in zip(sizes, windows, strict=True):
        starts = np.arange(window.count) * window.stride - window.padding
        ends = np.minimum(starts + window.kernel, size + window.padding)
        if not count_include_pad:
            starts, ends = np.maximum(starts, 0), np.minimum(ends, size)
        yield np.maximum(ends - starts, 1)


def _divided(sums, lengths):
    divisor = np.asarray(1)
    for length in lengths:
        divisor = divisor * length
    # Integers are divided as in C: towards zero.
    divide = jnp.divide if jnp.issubdtype(sums.dtype, jnp.inexact) else lax.div
    return divide(sums, jnp.broadcast_to(jnp.asarray(divisor, sums.dtype), sums.shape))


def _sliding_average(
    sizes, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
):
    windows = sliding(sizes, kernel_size, stride or kernel_size, padding, (1,), ceil_mode)
    if divisor_override is None:
        lengths = np.ix_(*_lengths(sizes, windows, count_include_pad))
    else:
        lengths = (divisor_override,)
    return _Average(
        lambda input: window_sums(input, windows),
        lambda grad, shape: window_sums_transposed(grad, shape, windows),
        lengths,
    )


def _avg_pool(dims):
    def avg_pool(
        self,
        kernel_size,
        stride=(),
        padding=(0,),
        ceil_mode=False,
        count_include_pad=True,
        divisor_override=None,
    ):
        average = _sliding_average(
            self.shape[-dims:], kernel_size, stride, padding, ceil_mode, count_include_pad,
            divisor_override,
        )  # fmt: skip
        return average.forward(self)

    return avg_pool


def _avg_pool_backward(dims):
    def avg_pool_backward(
        grad_output,
        self,
        kernel_size,
        stride,
        padding,
        ceil_mode,
        count_include_pad,
        divisor_override,
    ):
        average = _sliding_average(
            self.shape[-dims:], kernel_size, stride, padding, ceil_mode, count_include_pad,
            divisor_override,
        )  # fmt: skip
        return average.backward(grad_output, self.shape)

    return avg_pool_backward


lowering(aten.avg_pool2d.default)(_avg_pool(2))
lowering(aten.avg_pool3d.default)(_avg_pool(3))
lowering(aten.avg_pool2d_backward.default)(_avg_pool_backward(2))
lowering(aten.avg_pool3d_backward.default)(_avg_pool_backward(3))


def _adaptive_average(sizes, counts):
    """Windows that cover each dim evenly, which slide, or nearly so."""
    if all(count and size % count == 0 for size, count in zip(sizes, counts, strict=True)):
        kernels = tuple(size // count for size, count in zip(sizes, counts, strict=True))
        return _sliding_average(sizes, kernels, kernels, (0,), False, True, None)
    bounds = [adaptive_bounds(size, count) for size, count in zip(sizes, counts, strict=True)]

    holders = [_holders(size, *ends) for size, ends in zip(sizes, bounds, strict=True)]
    return _Average(
        lambda input: _uneven_sums(input, bounds),
        lambda grad, shape: _uneven_sums(grad, holders),
        np.ix_(*(ends - starts for starts, ends in bounds)),
    )


def _holders(size, starts, ends):
    """The first of the windows that hold each position of a dim, and the one after the last."""
    places = np.arange(size)
    return np.searchsorted(ends, places, "right"), np.searchsorted(starts, places, "right")


def _uneven_sums(input, bounds):
    for axis, (starts, ends) in enumerate(bounds, start=-len(bounds)):
        input = _sums_between(input, axis, starts, ends)
    return input


def _sums_between(input, axis, starts, ends):
    shape = [-1 if each == axis else 1 for each in range(-input.ndim, 0)]
    total = 0
    for place in range(max(ends - starts, default=0)):
        rows = jnp.take(input, jnp.asarray(np.minimum(starts + place, ends - 1)), axis=axis)
        inside = (starts + place < ends).reshape(shape)
        total = total + (rows if inside.all() else jnp.where(inside, rows, 0))
    return total


@lowering(
    aten._adaptive_avg_pool2d.default,
    aten._adaptive_avg_pool3d.default,
    aten.adaptive_avg_pool2d.default,  # of which the form with out= is an op of its own
    aten.adaptive_avg_pool3d.default,
)
def _adaptive_avg_pool(self, output_size):
    counts = tuple(output_size)
    shape = (*self.shape[: -len(counts)], *counts)
    if 0 in shape:
        return jnp.zeros(shape, self.dtype)
    return _adaptive_average(self.shape[-len(counts) :], counts).forward(self)


def _adaptive_avg_pool_backward(dims):
    def adaptive_avg_pool_backward(grad_output, self):
        if 0 in grad_output.shape:
            return jnp.zeros(self.shape, grad_output.dtype)
        average = _adaptive_average(self.shape[-dims:], grad_output.shape[-dims:])
        return average.backward(grad_output, self.shape)

    return adaptive_avg_pool_backward


lowering(aten._adaptive_avg_pool2d_backward.default)(_adaptive_avg_pool_backward(2))
lowering(aten._adaptive_avg_pool3d_backward.default)(_adaptive_avg_pool_backward(3))
