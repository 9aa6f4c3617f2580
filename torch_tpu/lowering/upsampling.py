"""Resizing by nearest neighbours and by linear, cubic and antialiased interpolation.

Sizes and scales are static, so which inputs make up an output is worked out in NumPy. An
interpolation is linear and separable, and each gradient is the transpose of its forward form.
"""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import torch
from jax import lax

from torch_tpu.lowering.promotion import promote
from torch_tpu.lowering.registry import lowering

aten = torch.ops.aten

_SCALES = ("scales", "scales_d", "scales_h", "scales_w")


@dataclasses.dataclass(frozen=True)
class Taps:
    """The inputs that an output along one dim is the weighted sum of: (output, tap) arrays.

    Places may lie outside the dim: PyTorch reads the nearest edge there.
    """

    places: np.ndarray
    weights: np.ndarray


def _scale(in_size, out_size, scale, align_corners=False):
    """Input steps per output step."""
    if align_corners:
        return (in_size - 1) / (out_size - 1) if out_size > 1 else 0.0
    return 1 / scale if scale is not None and scale > 0 else in_size / out_size


def _triangle(x):
    return np.maximum(1 - np.abs(x), 0)


def _cubic(x, a):
    x = np.abs(x)
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((x - 5) * x + 8) * x * a - 4 * a
    return np.where(x < 1, near, np.where(x < 2, far, 0))


def _lanczos(x):
    return np.where(np.abs(x) < 3, np.sinc(x) * np.sinc(x / 3), 0)


def _kernel_taps(step, out_size, align_corners, reach, kernel):
    """Taps within ``reach`` inputs of each output's position, weighted by their distance."""
    positions = np.arange(out_size) * step
    if not align_corners:
        positions += 0.5 * step - 0.5
    # Decimals that are float64's rounding would put an exact position left of its input.
    positions = np.round(positions, 9)
    places = np.floor(positions)[:, None].astype(np.int64) + np.arange(1 - reach, reach + 1)
    return Taps(places, kernel(positions[:, None] - places))


def _linear_taps(in_size, out_size, align_corners, scale):
    # Where the size stays PyTorch copies, whatever the scale; not so for cubic interpolation.
    same = in_size == out_size
    step = 1.0 if same else _scale(in_size, out_size, scale, align_corners)
    return _kernel_taps(step, out_size, align_corners, 1, _triangle)


def _cubic_taps(in_size, out_size, align_corners, scale):
    step = _scale(in_size, out_size, scale, align_corners)
    return _kernel_taps(step, out_size, align_corners, 2, lambda x: _cubic(x, a=-0.75))


def _antialiased_taps(reach, kernel):
    """Taps of a kernel that widens with the scale when an image shrinks, within the image."""

    def taps(in_size, out_size, align_corners, scale):
        if in_size == out_size:  # PyTorch leaves the dim as it is, whatever the scale
            return _linear_taps(in_size, out_size, align_corners, None)
        step = _scale(in_size, out_size, scale, align_corners)
        width = max(step, 1.0)
        centers = step * (np.arange(out_size)[:, None] + 0.5)
        first = np.maximum((centers - reach * width + 0.5).astype(np.int64), 0)
        last = np.minimum((centers + reach * width + 0.5).astype(np.int64), in_size)
        places = first + np.arange(2 * math.ceil(reach * width) + 1)
        weights = np.where(places < last, kernel((places - centers + 0.5) / width), 0)
        total = weights.sum(axis=1, keepdims=True)
        return Taps(places, weights / np.where(total == 0, 1, total))

    return taps


def _phases(taps, in_size):
    """Taps of the first input's outputs where all inputs have the same number of like outputs."""
    out_size = len(taps.places)
    if in_size == 0 or out_size % in_size:
        return None
    shifts = (
        taps.places.reshape(in_size, -1, taps.places.shape[1]) - np.arange(in_size)[:, None, None]
    )
    weights = taps.weights.reshape(shifts.shape)
    alike = np.array_equal(shifts, np.broadcast_to(shifts[:1], shifts.shape))
    return Taps(shifts[0], weights[0]) if alike and np.allclose(weights, weights[:1]) else None


def _shifted(self, dim, shift):
    """The input ``shift`` further along a dim, the edge where there is none."""
    size = self.shape[dim]
    if shift == 0:
        return self
    at = size - 1 if shift > 0 else 0
    edge = lax.slice_in_dim(self, at, at + 1, axis=dim)
    start, stop = min(max(shift, 0), size), max(size + min(shift, 0), 0)
    kept = lax.slice_in_dim(self, start, stop, axis=dim)
    missing = size - kept.shape[dim]
    edge = jnp.broadcast_to(edge, (*self.shape[:dim], missing, *self.shape[dim + 1 :]))
    return lax.concatenate([kept, edge] if shift > 0 else [edge, kept], dim)


def _interpolate_dim(self, dim, taps):
    size = self.shape[dim]
    phases = _phases(taps, size)
    if phases is not None:
        # Whole factors: a few shifted copies, interleaved.
        outputs = [
            sum(
                weight * _shifted(self, dim, shift)
                for shift, weight in zip(shifts.tolist(), weights.tolist(), strict=True)
                if weight
            )
            for shifts, weights in zip(phases.places, phases.weights, strict=True)
        ]
        stacked = jnp.stack(outputs, axis=dim + 1)
        return stacked.reshape(*self.shape[:dim], len(taps.places), *self.shape[dim + 1 :])
    # Any other scale: a product with a banded matrix. A gather along the minor dims would be
    # far slower on a TPU, and so would the scatter of its gradient everywhere.
    places = jnp.asarray(np.clip(taps.places, 0, size - 1), jnp.int32)
    weights = jnp.asarray(taps.weights, self.dtype)
    inputs = lax.iota(jnp.int32, size)
    matrix = sum(
        jnp.where(inputs[:, None] == places[:, tap], weights[:, tap], 0)
        for tap in range(places.shape[1])
    )
    product = lax.dot_general(self, matrix, (((dim,), (0,)), ((), ())))
    return jnp.moveaxis(product, -1, dim)


def _interpolate(self, output_size, taps_of, scales, after_each=lambda x: x):
    # The last dim first, as PyTorch does: where the results are bytes the order shows.
    for place in reversed(range(len(output_size))):
        dim = 2 + place
        taps = taps_of(self.shape[dim], output_size[place], scales[place])
        self = after_each(_interpolate_dim(self, dim, taps))
    return self


def _to_bytes(self):
    return jnp.clip(jnp.floor(self + 0.5), 0, 255)


def _in_fixed_point(taps, in_size):
    """Weights as CPU PyTorch rounds them for bytes: as fine as 16 bits with a sign allow."""
    per_input = np.zeros((len(taps.places), in_size))
    rows = np.arange(len(taps.places))[:, None]
    np.add.at(per_input, (rows, np.clip(taps.places, 0, in_size - 1)), taps.weights)
    largest = per_input.max(initial=0)
    fraction_bits = 0
    while fraction_bits < 22 and int(0.5 + largest * 2 ** (fraction_bits + 1)) < 2**15:
        fraction_bits += 1
    unit = 2.0**-fraction_bits
    weights = np.trunc(taps.weights / unit + np.copysign(0.5, taps.weights)) * unit
    return Taps(taps.places, weights)


def _resize(self, output_size, taps_of, scales):
    if self.dtype == jnp.uint8:

        def rounded_taps_of(in_size, out_size, scale):
            return _in_fixed_point(taps_of(in_size, out_size, scale), in_size)

        image = self.astype(jnp.float32)
        return _interpolate(image, output_size, rounded_taps_of, scales, _to_bytes)
    (self,) = promote(self)
    return _interpolate(self, output_size, taps_of, scales)


def _resize_backward(grad_output, output_size, input_size, taps_of, scales):
    (grad_output,) = promote(grad_output)
    image = jax.ShapeDtypeStruct(tuple(input_size), grad_output.dtype)
    (grad,) = jax.linear_transpose(lambda x: _interpolate(x, output_size, taps_of, scales), image)(
        grad_output
    )
    return grad


def _register_interpolation(name, backward_name, taps):
    """Both rules of an op with ``align_corners`` and a scale per dim."""

    @lowering(getattr(aten, name).default, static=_SCALES)
    def forward(self, output_size, align_corners, *scales):
        def taps_of(in_size, out_size, scale):
            return taps(in_size, out_size, align_corners, scale)

        return _resize(self, output_size, taps_of, scales)

    @lowering(getattr(aten, backward_name).default, static=_SCALES)
    def backward(grad_output, output_size, input_size, align_corners, *scales):
        def taps_of(in_size, out_size, scale):
            return taps(in_size, out_size, align_corners, scale)

        return _resize_backward(grad_output, output_size, input_size, taps_of, scales)


_INTERPOLATIONS = {
    "upsample_linear1d": _linear_taps,
    "upsample_bilinear2d": _linear_taps,
    "upsample_trilinear3d": _linear_taps,
    "upsample_bicubic2d": _cubic_taps,
    "_upsample_bilinear2d_aa": _antialiased_taps(1, _triangle),
    "_upsample_bicubic2d_aa": _antialiased_taps(2, lambda x: _cubic(x, a=-0.5)),
    "_upsample_lanczos2d_aa": _antialiased_taps(3, _lanczos),
}
for _name, _taps in _INTERPOLATIONS.items():
    _register_interpolation(_name, _name + "_backward", _taps)


def _nearest_places(in_size, out_size, scale):
    """As below, but for sizes that are equal or doubled, where PyTorch forgets the scale."""
    if out_size in (in_size, 2 * in_size):
        return np.arange(out_size) * in_size // max(out_size, 1)
    return _scaled_nearest_places(in_size, out_size, scale)


def _scaled_nearest_places(in_size, out_size, scale):
    """floor(output * scale), in the float32 that decides ties in PyTorch."""
    step = np.float32(_scale(in_size, out_size, scale))
    if scale is None or scale <= 0:
        step = np.float32(in_size) / np.float32(out_size)
    places = np.floor(np.arange(out_size, dtype=np.float32) * step)
    return np.minimum(places.astype(np.int64), in_size - 1)


def _nearest_exact_places(in_size, out_size, scale):
    """floor((output + 0.5) * scale) with the scale in float32."""
    step = np.float32(_scale(in_size, out_size, scale))
    if scale is None or scale <= 0:
        step = np.float32(in_size) / np.float32(out_size)
    places = np.floor(((np.arange(out_size) + 0.5) * np.float64(step)).astype(np.float32))
    return np.minimum(places.astype(np.int64), in_size - 1)


def _select(self, output_size, places_of, scales):
    """Each output's nearest input: a repetition or strided slice where the factor is whole."""
    for place, (out_size, scale) in enumerate(zip(output_size, scales, strict=True)):
        dim, size = 2 + place, self.shape[2 + place]
        places = places_of(size, out_size, scale)
        stride = places[1] - places[0] if out_size > 1 else 1
        if out_size % size == 0 and np.array_equal(
            places, np.repeat(np.arange(size), out_size // size)
        ):
            self = jnp.repeat(self, out_size // size, axis=dim)
        elif stride > 0 and np.all(np.diff(places) == stride):
            first, last = int(places[0]), int(places[-1])
            self = lax.slice_in_dim(self, first, last + 1, int(stride), axis=dim)
        else:
            self = jnp.take(self, jnp.asarray(places, jnp.int32), axis=dim, mode="clip")
    return self


def _register_nearest(name, backward_name, places_of, forward_places_of):
    @lowering(getattr(aten, name).default, static=_SCALES)
    def forward(self, output_size, *scales):
        return _select(self, output_size, forward_places_of, scales)

    @lowering(getattr(aten, backward_name).default, static=_SCALES)
    def backward(grad_output, output_size, input_size, *scales):
        def taps_of(in_size, out_size, scale):
            places = places_of(in_size, out_size, scale)[:, None]
            return Taps(places, np.ones(places.shape))

        return _resize_backward(grad_output, output_size, input_size, taps_of, scales)


for _dims in (1, 2, 3):
    _forward_places = _nearest_places if _dims == 2 else _scaled_nearest_places
    for _name, *_places in (
        (f"upsample_nearest{_dims}d", _nearest_places, _forward_places),
        (f"_upsample_nearest_exact{_dims}d", _nearest_exact_places, _nearest_exact_places),
    ):
        _register_nearest(_name, _name + "_backward", *_places)
