"""Sampling an image at a grid of coordinates, and the grid of an affine map."""

import math

import jax
import jax.numpy as jnp
import torch
from jax import lax

from torch_tpu.lowering.promotion import promote
from torch_tpu.lowering.registry import lowering

aten = torch.ops.aten

_BILINEAR, _NEAREST, _BICUBIC = 0, 1, 2  # GridSamplerInterpolation
_ZEROS, _BORDER, _REFLECTION = 0, 1, 2  # GridSamplerPadding

_CUBIC_A = -0.75


def _unnormalize(coordinate, size, align_corners):
    """From [-1, 1] to [0, size - 1], or to [-0.5, size - 0.5] without aligned corners."""
    if align_corners:
        return (coordinate + 1) / 2 * (size - 1)
    return ((coordinate + 1) * size - 1) / 2


def _reflect(coordinate, size, align_corners):
    """Mirror coordinates at the edge pixels' centres, or at their outer borders."""
    low, span = (0, size - 1) if align_corners else (-0.5, size)
    if span == 0:
        return jnp.zeros_like(coordinate)
    # Not jnp.abs, whose gradient at the mirror itself is 0: PyTorch's is 1.
    distance = jnp.where(coordinate < low, low - coordinate, coordinate - low)
    flips = jnp.floor(distance / span)
    extra = distance - flips * span
    return low + jnp.where(flips % 2 == 0, extra, span - extra)


def _pad(coordinate, size, padding_mode, align_corners):
    if padding_mode == _ZEROS:
        return coordinate
    if padding_mode == _REFLECTION:
        coordinate = _reflect(coordinate, size, align_corners)
    # lax.clamp, unlike jnp.clip, has no gradient at the bounds, nor has PyTorch's.
    return lax.clamp(
        jnp.zeros((), coordinate.dtype), coordinate, jnp.asarray(size - 1.0, coordinate.dtype)
    )


def _along(taps, dim, dims):
    """Per-dim (N, tap, *out) as (N, *taps, *out), the tap axes of the other dims of length 1."""
    others = [(1,) * count for count in (dim, dims - dim - 1)]
    return taps.reshape(len(taps), *others[0], taps.shape[1], *others[1], *taps.shape[2:])


def _read(input, places):
    """Pixels (N, C, *taps, *out) at places (N, tap, *out) per dim; 0 outside the image."""
    sizes = input.shape[2:]
    inside, flat = True, 0
    for dim, (place, size) in enumerate(zip(places, sizes, strict=True)):
        place = lax.stop_gradient(_along(place, dim, len(sizes)))
        inside &= (place >= 0) & (place < size)
        flat = flat * size + jnp.clip(jnp.nan_to_num(place), 0, size - 1).astype(jnp.int32)
    pixels = input.reshape(*input.shape[:2], math.prod(sizes))
    index = flat.reshape(len(flat), math.prod(flat.shape[1:]))
    read = jax.vmap(lambda image, at: image.at[:, at].get(mode="promise_in_bounds"))(pixels, index)
    return jnp.where(inside[:, None], read.reshape(*read.shape[:2], *flat.shape[1:]), 0)


def _linear_weights(fraction):
    return 1 - fraction, fraction


def _cubic_weights(fraction):
    def near(x):
        return ((_CUBIC_A + 2) * x - (_CUBIC_A + 3)) * x * x + 1

    def far(x):
        return ((_CUBIC_A * x - 5 * _CUBIC_A) * x + 8 * _CUBIC_A) * x - 4 * _CUBIC_A

    return far(fraction + 1), near(fraction), near(1 - fraction), far(2 - fraction)


def _sample(input, grid, interpolation_mode, padding_mode, align_corners):
    sizes = input.shape[2:]

    def pad(coordinate, size):
        return _pad(coordinate, size, padding_mode, align_corners)

    # The grid holds x first, the image's last dim.
    positions = [
        _unnormalize(grid[..., place], size, align_corners)
        for place, size in zip(reversed(range(len(sizes))), sizes, strict=True)
    ]
    if interpolation_mode != _BICUBIC:
        positions = [pad(at, size) for at, size in zip(positions, sizes, strict=True)]
    if interpolation_mode == _NEAREST:
        taps = (2 + place for place in range(len(sizes)))
        return jnp.squeeze(_read(input, [jnp.round(at)[:, None] for at in positions]), tuple(taps))
    corners = [lax.stop_gradient(jnp.floor(at)) for at in positions]
    cubic = interpolation_mode == _BICUBIC
    steps, weights_of = (range(-1, 3), _cubic_weights) if cubic else (range(2), _linear_weights)
    places = [jnp.stack([corner + step for step in steps], axis=1) for corner in corners]
    if cubic:
        places = [pad(place, size) for place, size in zip(places, sizes, strict=True)]
    sampled = _read(input, places)
    for dim, (position, corner) in enumerate(zip(positions, corners, strict=True)):
        weights = jnp.stack(weights_of(position - corner), axis=1)
        sampled *= _along(weights, dim, len(sizes))[:, None]
    return jnp.sum(sampled, axis=tuple(range(2, 2 + len(sizes))))


@lowering(aten.grid_sampler_2d.default, aten.grid_sampler_3d.default)
def grid_sampler(input, grid, interpolation_mode, padding_mode, align_corners):
    input, grid = promote(input, grid)
    return _sample(input, grid, interpolation_mode, padding_mode, align_corners)


@lowering(aten.grid_sampler_2d_backward.default, aten.grid_sampler_3d_backward.default)
def grid_sampler_backward(
    grad_output, input, grid, interpolation_mode, padding_mode, align_corners, output_mask
):
    grad_output, input, grid = promote(grad_output, input, grid)

    def sample(input, grid):
        return _sample(input, grid, interpolation_mode, padding_mode, align_corners)

    grad_input, grad_grid = jax.vjp(sample, input, grid)[1](grad_output)
    # PyTorch returns the grid's gradient whether or not it is asked for.
    return grad_input if output_mask[0] else None, grad_grid


def _base_coordinates(size, align_corners, dtype):
    """Pixel centres from -1 to 1: those of the edge pixels, or the image's outer borders."""
    if size <= 1:
        return jnp.zeros(size, dtype)
    reach = 1 if align_corners else (size - 1) / size
    return jnp.linspace(-reach, reach, size, dtype=dtype)


@lowering(aten.affine_grid_generator.default)
def affine_grid_generator(theta, size, align_corners):
    (theta,) = promote(theta)
    batch, _, *sizes = size
    axes = [_base_coordinates(each, align_corners, theta.dtype) for each in sizes]
    axes = [jnp.broadcast_to(axis, sizes) for axis in jnp.meshgrid(*axes, indexing="ij")]
    base = jnp.stack([*reversed(axes), jnp.ones(sizes, theta.dtype)], axis=-1)
    base = base.reshape(-1, len(sizes) + 1)
    grid = lax.dot_general(theta, base, (((2,), (1,)), ((), ())))
    return jnp.swapaxes(grid, 1, 2).reshape(batch, *sizes, len(sizes))
