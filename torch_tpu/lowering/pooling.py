"""Average pooling over windows, sliding or adaptive, and its gradients."""

import jax
import jax.numpy as jnp
import numpy as np
import torch
from jax import lax

from torch_tpu.lowering.promotion import promote
from torch_tpu.lowering.registry import lowering

aten = torch.ops.aten


def per_dim(value, dims):
    """An int[] argument: one number stands for all dims."""
    return tuple(value) * (dims // len(value))


def window_count(size, kernel, stride, padding, dilation, ceil_mode):
    """How many windows a dim has; with ``ceil_mode`` the last may hang over the end."""
    room = size + 2 * padding - dilation * (kernel - 1) - 1
    count = (room + (stride - 1) * ceil_mode) // stride + 1
    starts_outside = ceil_mode and (count - 1) * stride >= size + padding
    return count - starts_outside


def adaptive_bounds(size, count):
    """Where each of ``count`` windows that cover a dim starts and ends."""
    places = np.arange(count)
    return places * size // count, -(-(places + 1) * size // count)


def _sums(input, kernels, strides, paddings, counts):
    """The sum of each window of the trailing dims."""
    leading = input.ndim - len(kernels)
    spatial = zip(input.shape[leading:], kernels, strides, paddings, counts, strict=True)
    pads = [
        (low, (count - 1) * stride + kernel - size - low, 0)
        for size, kernel, stride, low, count in spatial
    ]
    # Not a traced array: JAX must see that this is a plain sum, which alone has a transpose.
    zero = np.zeros((), input.dtype)
    input = lax.pad(input, zero, [(0, 0, 0)] * leading + pads)
    if kernels == strides:
        # Windows that tile are a reshape and a plain sum.
        tiles = [length for pair in zip(counts, kernels, strict=True) for length in pair]
        tiled = input.reshape(*input.shape[:leading], *tiles)
        return jnp.sum(tiled, axis=tuple(range(leading + 1, tiled.ndim, 2)))
    ones = (1,) * leading
    return lax.reduce_window(input, zero, lax.add, ones + kernels, ones + strides, "VALID")


def _divisors(sizes, kernels, strides, paddings, counts, count_include_pad):
    """How many elements each window counts, per dim: broadcast, their product is the divisor."""
    lengths = []
    for size, kernel, stride, padding, count in zip(
        sizes, kernels, strides, paddings, counts, strict=True
    ):
        starts = np.arange(count) * stride - padding
        ends = np.minimum(starts + kernel, size + padding)
        if not count_include_pad:
            starts, ends = np.maximum(starts, 0), np.minimum(ends, size)
        lengths.append(np.maximum(ends - starts, 1))
    return np.ix_(*lengths)


def _divided(sums, lengths):
    divisor = np.asarray(1)
    for length in lengths:
        divisor = divisor * length
    # Integers are divided as in C: towards zero.
    divide = jnp.divide if jnp.issubdtype(sums.dtype, jnp.inexact) else lax.div
    return divide(sums, jnp.broadcast_to(jnp.asarray(divisor, sums.dtype), sums.shape))


def _average(
    dims, sizes, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
):
    """The two halves of average pooling: the windows' sums and what they are divided by."""
    kernels, strides, paddings = (
        per_dim(value, dims) for value in (kernel_size, stride or kernel_size, padding)
    )
    counts = tuple(
        window_count(size, kernel, step, low, 1, ceil_mode)
        for size, kernel, step, low in zip(sizes, kernels, strides, paddings, strict=True)
    )
    window = kernels, strides, paddings, counts
    if divisor_override is not None:
        lengths = [divisor_override]
    else:
        lengths = _divisors(sizes, *window, count_include_pad)
    return (lambda input: _sums(input, *window)), (lambda sums: _divided(sums, lengths))


def _spread(grad_output, self, divide, sums):
    """The gradient of an average, a linear function in two steps."""
    (grad,) = promote(grad_output)
    input = jax.ShapeDtypeStruct(self.shape, grad.dtype)
    return jax.linear_transpose(sums, input)(divide(grad))[0]


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
        sums, divide = _average(
            dims, self.shape[-dims:], kernel_size, stride, padding, ceil_mode,
            count_include_pad, divisor_override,
        )  # fmt: skip
        (self,) = promote(self)
        return divide(sums(self))

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
        sums, divide = _average(
            dims, self.shape[-dims:], kernel_size, stride, padding, ceil_mode,
            count_include_pad, divisor_override,
        )  # fmt: skip
        return _spread(grad_output, self, divide, sums)

    return avg_pool_backward


lowering(aten.avg_pool2d.default)(_avg_pool(2))
lowering(aten.avg_pool3d.default)(_avg_pool(3))
lowering(aten.avg_pool2d_backward.default)(_avg_pool_backward(2))
lowering(aten.avg_pool3d_backward.default)(_avg_pool_backward(3))


def _adaptive_average(sizes, counts):
    """As ``_average``, for windows that cover each dim evenly or nearly so."""
    if all(count and size % count == 0 for size, count in zip(sizes, counts, strict=True)):
        kernels = tuple(size // count for size, count in zip(sizes, counts, strict=True))
        return _average(len(sizes), sizes, kernels, kernels, (0,), False, True, None)
    bounds = [adaptive_bounds(size, count) for size, count in zip(sizes, counts, strict=True)]
    lengths = np.ix_(*(ends - starts for starts, ends in bounds))

    def sums(input):
        for axis, (starts, ends) in enumerate(bounds, start=-len(bounds)):
            input = _uneven_sums(input, axis, starts, ends)
        return input

    return sums, lambda summed: _divided(summed, lengths)


def _uneven_sums(input, axis, starts, ends):
    shape = [-1 if each == axis else 1 for each in range(-input.ndim, 0)]
    total = 0
    for place in range(max(ends - starts, default=0)):
        rows = jnp.take(input, jnp.asarray(np.minimum(starts + place, ends - 1)), axis=axis)
        inside = (starts + place < ends).reshape(shape)
        total = total + (rows if inside.all() else jnp.where(inside, rows, 0))
    return total


@lowering(aten._adaptive_avg_pool2d.default, aten._adaptive_avg_pool3d.default)
def _adaptive_avg_pool(self, output_size):
    counts = tuple(output_size)
    shape = (*self.shape[: -len(counts)], *counts)
    (self,) = promote(self)
    if 0 in shape:
        return jnp.zeros(shape, self.dtype)
    sums, divide = _adaptive_average(self.shape[-len(counts) :], counts)
    return divide(sums(self))


def _adaptive_avg_pool_backward(dims):
    def adaptive_avg_pool_backward(grad_output, self):
        if 0 in grad_output.shape:
            return jnp.zeros(self.shape, grad_output.dtype)
        sums, divide = _adaptive_average(self.shape[-dims:], grad_output.shape[-dims:])
        return _spread(grad_output, self, divide, sums)

    return adaptive_avg_pool_backward


lowering(aten._adaptive_avg_pool2d_backward.default)(_adaptive_avg_pool_backward(2))
lowering(aten._adaptive_avg_pool3d_backward.default)(_adaptive_avg_pool_backward(3))
