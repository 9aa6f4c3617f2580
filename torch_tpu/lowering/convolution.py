"""Convolution and its gradients, in one to three dims, grouped, dilated or transposed."""

import functools
import itertools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import torch
from jax import lax

from torch_tpu.lowering import dtypes
from torch_tpu.lowering.promotion import promote
from torch_tpu.lowering.registry import lowering

aten = torch.ops.aten

# A grouped weight gradient is a product for each place of the kernel. Beyond this many places
# the program would grow too large and XLA's own grouped convolution takes over.
_MOST_PLACES = 128


class _Window(NamedTuple):
    """How a kernel moves over its input; ``padding`` has a (low, high) pair for each dim."""

    stride: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    dilation: tuple[int, ...]
    groups: int


def _window(weight, stride, padding, dilation, transposed, output_padding, groups):
    """The window of a convolution, or of the one whose input gradient a transposed one is.

    Output padding makes that convolution's input longer at its end: that much less padding there
    keeps the number of places that the kernel visits.
    """
    dims = weight.ndim - 2
    # One number stands for all dims.
    stride, padding, dilation, output_padding = (
        tuple(value) * (dims // len(value)) for value in (stride, padding, dilation, output_padding)
    )
    longer = output_padding if transposed else (0,) * dims
    pairs = tuple((low, low - extra) for low, extra in zip(padding, longer, strict=True))
    return _Window(stride, pairs, dilation, groups)


def _wide(dtype):
    """What products are summed in: float32 for half and bfloat16."""
    return dtypes.to_jax(dtypes.opmath(dtypes.to_torch(dtype)))


def _correlate(input, weight, window):
    """NC... by OI... gives NC..., PyTorch's layouts.

    XLA chooses the layout that its device wants: transposing to NHWC and back here is no faster
    on XLA:CPU and hides the dims from XLA:TPU.
    """
    spatial = "DHW"[5 - input.ndim :]
    return lax.conv_general_dilated(
        input,
        weight,
        window.stride,
        window.padding,
        rhs_dilation=window.dilation,
        dimension_numbers=("NC" + spatial, "OI" + spatial, "NC" + spatial),
        feature_group_count=window.groups,
        preferred_element_type=_wide(input.dtype),
    )


def _input_gradient(grad, weight, sizes, window):
    """The gradient of ``_correlate`` for an input of these sizes; a transposed convolution too.

    ``jax.linear_transpose`` gives the same, but not for integers, and sums narrow floats narrowly.
    """
    spatial = "DHW"[5 - grad.ndim :]
    reaches = [
        step * (count - 1) for step, count in zip(window.dilation, weight.shape[2:], strict=True)
    ]
    lows = [reach - low for reach, (low, _) in zip(reaches, window.padding, strict=True)]
    highs = [
        size + reach - (count - 1) * stride - 1 - low
        for size, reach, count, stride, low in zip(
            sizes, reaches, grad.shape[2:], window.stride, lows, strict=True
        )
    ]
    # XLA wants the groups side by side among the channels that come out.
    outs, ins, *kernel = weight.shape
    weight = weight.reshape(window.groups, outs // window.groups, ins, *kernel)
    weight = jnp.moveaxis(weight, 0, 1).reshape(outs // window.groups, -1, *kernel)
    return lax.conv_general_dilated(
        grad,
        lax.rev(weight, range(2, weight.ndim)),
        [1] * len(spatial),
        list(zip(lows, highs, strict=True)),
        lhs_dilation=window.stride,
        rhs_dilation=window.dilation,
        dimension_numbers=("NC" + spatial, "IO" + spatial, "NC" + spatial),
        feature_group_count=window.groups,
        preferred_element_type=_wide(grad.dtype),
    )


def _weight_gradient(grad, input, shape, window):
    places = math.prod(shape[2:])
    pointwise = places == 1 and not any(map(any, window.padding))
    if pointwise or window.groups > 1 and places <= _MOST_PLACES:
        return _weight_gradient_by_place(grad, input, shape, window)
    # Narrow floats become wide ones, as the transpose wants one dtype throughout; XLA sees
    # through the conversion.
    input, grad = promote(input, grad)
    correlate = functools.partial(_correlate, input, window=window)
    weight = jax.ShapeDtypeStruct(shape, input.dtype)
    return jax.linear_transpose(correlate, weight)(grad)[0]


def _weight_gradient_by_place(grad, input, shape, window):
    """A matrix product of the output's gradient and what each place of the kernel saw.

    As one grouped convolution XLA:CPU takes hundreds of times as long, and four times for a
    pointwise kernel.
    """
    none = (0, 0, 0)
    input = lax.pad(
        input, jnp.zeros((), input.dtype), [none, none, *((*pair, 0) for pair in window.padding)]
    )
    batch, size = grad.shape[0], grad.shape[2:]
    grad = grad.reshape(batch, window.groups, shape[0] // window.groups, *size)
    summed = (0, *range(3, grad.ndim))
    gradients = []
    for place in itertools.product(*map(range, shape[2:])):
        starts = [at * dilation for at, dilation in zip(place, window.dilation, strict=True)]
        steps = zip(starts, size, window.stride, strict=True)
        limits = [start + (count - 1) * stride + 1 for start, count, stride in steps]
        seen = lax.slice(
            input, (0, 0, *starts), (*input.shape[:2], *limits), (1, 1, *window.stride)
        ).reshape(batch, window.groups, shape[1], *size)
        gradients.append(
            lax.dot_general(
                grad,
                seen,
                ((summed, summed), ((1,), (1,))),
                preferred_element_type=_wide(input.dtype),
            )
        )
    return jnp.stack(gradients, axis=-1).reshape(shape)


def _transposed_sizes(input, weight, window):
    """How far a transposed convolution's output reaches in each dim."""
    return [
        (count - 1) * stride - low - high + dilation * (kernel - 1) + 1
        for count, kernel, stride, (low, high), dilation in zip(
            input.shape[2:], weight.shape[2:], *window[:3], strict=True
        )
    ]


def _along_channels(bias, ndim):
    return bias.reshape(-1, *(1,) * (ndim - 2))


@lowering(aten.convolution.default, aten.convolution_overrideable.default)
def convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups):
    window = _window(weight, stride, padding, dilation, transposed, output_padding, groups)
    if transposed:
        sizes = _transposed_sizes(input, weight, window)
        output = _input_gradient(input, weight, sizes, window)
    else:
        output = _correlate(input, weight, window)
    if bias is None:
        return output
    output, bias = promote(output, bias)
    return output + _along_channels(bias, output.ndim)


@lowering(aten.convolution_backward.default)
def convolution_backward(
    grad_output,
    input,
    weight,
    bias_sizes,
    stride,
    padding,
    dilation,
    transposed,
    output_padding,
    groups,
    output_mask,
):
    window = _window(weight, stride, padding, dilation, transposed, output_padding, groups)
    grad_input = grad_weight = grad_bias = None
    if output_mask[0] and transposed:
        grad_input = _correlate(grad_output, weight, window)
    elif output_mask[0]:
        grad_input = _input_gradient(grad_output, weight, input.shape[2:], window)
    if output_mask[1]:
        pair = (input, grad_output) if transposed else (grad_output, input)
        grad_weight = _weight_gradient(*pair, weight.shape, window)
    if output_mask[2]:
        (grad_output,) = promote(grad_output)
        grad_bias = jnp.sum(grad_output, axis=(0, *range(2, grad_output.ndim)))
    return grad_input, grad_weight, grad_bias


@lowering(aten.convolution_backward_overrideable.default)
def convolution_backward_overrideable(
    grad_output,
    input,
    weight,
    stride,
    padding,
    dilation,
    transposed,
    output_padding,
    groups,
    output_mask,
):
    return convolution_backward(
        grad_output, input, weight, None, stride, padding, dilation, transposed, output_padding,
        groups, output_mask,
    )  # fmt: skip
