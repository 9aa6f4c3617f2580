"""Sliding windows over the trailing dims of an array, for pooling: places in them, and back."""

import itertools
import math
from typing import NamedTuple

import jax.numpy as jnp
from jax import lax


class Window(NamedTuple):
    """How windows slide over a dim; ``count`` of them."""

    kernel: int
    stride: int
    padding: int
    dilation: int
    count: int


def per_dim(value, dims):
    """An int[] argument: one number stands for all dims."""
    return tuple(value) * (dims // len(value))


def sliding(sizes, kernel_size, stride, padding, dilation, ceil_mode):
    """The windows of each dim, from a pooling op's arguments."""
    arguments = (per_dim(each, len(sizes)) for each in (kernel_size, stride, padding, dilation))
    return [
        Window(*window, _count(size, *window, ceil_mode))
        for size, *window in zip(sizes, *arguments, strict=True)
    ]


def _count(size, kernel, stride, padding, dilation, ceil_mode):
    """How many windows a dim has; with ``ceil_mode`` the last may hang over the end."""
    room = size + 2 * padding - dilation * (kernel - 1) - 1
    count = (room + (stride - 1) * ceil_mode) // stride + 1
    starts_outside = ceil_mode and (count - 1) * stride >= size + padding
    return count - starts_outside


def at_place(array, axis, place, window, fill):
    """What each window of a dim has in a place."""
    start = place * window.dilation - window.padding
    stop = start + (window.count - 1) * window.stride + 1
    pads = [(0, 0, 0)] * array.ndim
    pads[axis] = (-start, stop - array.shape[axis], 0)
    padded = lax.pad(array, jnp.asarray(fill, array.dtype), pads)
    return lax.slice_in_dim(padded, 0, None, window.stride, axis)


def by_position(shape, windows, share):
    """An array of a shape with, in each position, the sum over the windows that hold it.

    Positions a stride apart (a phase) lie in the same places of their windows.
    ``share(pads, phase)`` gives what the positions of a phase (their starts in each dim) get from
    the windows in one such place, where ``lax.pad`` by ``pads`` lays a window's number at its
    position's. Neither a scatter, slow on a TPU, nor gaps between elements to skip one by one.
    """
    leading = len(shape) - len(windows)
    sizes = shape[leading:]
    strides = [window.stride for window in windows]
    lengths = [-(-size // stride) for size, stride in zip(sizes, strides, strict=True)]
    phases = []
    for phase in itertools.product(*map(range, strides)):
        places = itertools.product(*map(_pads, phase, lengths, windows))
        parts = [share([(0, 0, 0)] * leading + list(pads), phase) for pads in places]
        phases.append(sum(parts) if parts else None)
    none = jnp.zeros_like(next(part for part in phases if part is not None))
    phases = [none if part is None else part for part in phases]
    return _interleaved(phases, shape[:leading], lengths, strides, sizes)


def _pads(start, length, window):
    """For each place of a window that positions ``start``, ``start + stride``, ... take."""
    pads = []
    for place in range(window.kernel):
        first, between = divmod(start + window.padding - place * window.dilation, window.stride)
        if not between:
            pads.append((-first, length + first - window.count, 0))
    return pads


def _interleaved(phases, leading, lengths, strides, sizes):
    dims, ahead = len(strides), len(leading)
    stacked = jnp.stack(phases).reshape(*strides, *leading, *lengths)
    order = [(dims + ahead + dim, dim) for dim in range(dims)]
    axes = [*range(dims, dims + ahead), *itertools.chain.from_iterable(order)]
    spans = map(math.prod, zip(lengths, strides, strict=True))
    whole = jnp.transpose(stacked, axes).reshape(*leading, *spans)
    return lax.slice(whole, [0] * whole.ndim, (*leading, *sizes))


def window_sums(input, windows):
    """The sum of each window, one dim after the other."""
    for axis, window in enumerate(windows, start=-len(windows)):
        input = _sums(input, input.ndim + axis, window)
    return input


# Up to this many places strided slices fuse into one loop: five to twenty times as fast as a
# reduce-window on XLA:CPU.
_MOST_SLICES = 16


def _sums(input, axis, window):
    if window.kernel <= _MOST_SLICES:
        return sum(at_place(input, axis, place, window, 0) for place in range(window.kernel))
    lengths, strides, pads = [1] * input.ndim, [1] * input.ndim, [(0, 0)] * input.ndim
    lengths[axis], strides[axis] = window.kernel, window.stride
    stop = (window.count - 1) * window.stride + window.kernel - window.padding
    pads[axis] = (window.padding, stop - input.shape[axis])
    # Padding below 0 is not for a reduce-window: windows that leave out the end never see it.
    if pads[axis][1] < 0:
        input = lax.slice_in_dim(input, 0, stop, axis=axis)
        pads[axis] = (window.padding, 0)
    return lax.reduce_window(input, jnp.zeros((), input.dtype), lax.add, lengths, strides, pads)


def window_sums_transposed(grad, shape, windows):
    """The gradient of ``window_sums`` for an input of a shape."""
    for axis, window in enumerate(windows, start=len(shape) - len(windows)):
        grad = _sums_transposed(grad, axis, shape[axis], window)
    return grad


def _sums_transposed(grad, axis, size, window):
    zero = jnp.zeros((), grad.dtype)
    if window.kernel == window.stride:
        grad = jnp.repeat(grad, window.kernel, axis=axis)
        pads = [(0, 0, 0)] * grad.ndim
        pads[axis] = (-window.padding, size + window.padding - grad.shape[axis], 0)
        return lax.pad(grad, zero, pads)
    # The dims behind are windows of one position each.
    behind = [Window(1, 1, 0, 1, length) for length in grad.shape[axis + 1 :]]
    shape = (*grad.shape[:axis], size, *grad.shape[axis + 1 :])
    return by_position(shape, [window, *behind], lambda pads, _: lax.pad(grad, zero, pads))
