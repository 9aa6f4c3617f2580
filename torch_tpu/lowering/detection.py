"""torchvision's ops for object detection: suppression of overlapping boxes, features of regions."""

import jax.numpy as jnp
import numpy as np
from jax import lax

from torch_tpu.lowering import dtypes, sorting
from torch_tpu.lowering.indexing import true_places
from torch_tpu.lowering.promotion import cast
from torch_tpu.lowering.registry import lowering

# Boxes whose overlaps with all others are looked at together: the matrix of all would not fit.
_BLOCK = 256


def _not_above(number, dtype):
    """The largest value of a dtype that is not above a number, so that comparing needs no more."""
    rounded = lax.convert_element_type(number, dtype)
    below = lax.nextafter(rounded, jnp.asarray(-np.inf, dtype))
    return jnp.where(rounded.astype(jnp.float64) > number, below, rounded)


def _overlaps(some, boxes):
    """The intersection over the union of each of some boxes with each of the others."""
    x1, y1, x2, y2 = boxes.T
    left, top, right, bottom = (edge[:, None] for edge in some.T)
    width = jnp.maximum(jnp.minimum(right, x2) - jnp.maximum(left, x1), 0)
    height = jnp.maximum(jnp.minimum(bottom, y2) - jnp.maximum(top, y1), 0)
    shared = width * height
    return shared / ((right - left) * (bottom - top) + (x2 - x1) * (y2 - y1) - shared)


def _settled(candidates, suppresses):
    """Which candidates of a block stay, where each suppresses later ones if it stays itself.

    The first is right at once, and with each round those that depend on ones that are.
    """

    def survive(state):
        kept, _ = state
        now = candidates & ~jnp.any(suppresses & kept[:, None], axis=0)
        return now, jnp.any(now != kept)

    return lax.while_loop(lambda state: state[1], survive, (candidates, jnp.bool_(True)))[0]


def _kept(dets, scores, iou_threshold):
    """The boxes in order of falling scores, and which of them stay."""
    count = dets.shape[0]
    order = sorting.sort_stable(scores, dim=0, descending=True)[1]
    blocks = -(-count // _BLOCK)
    boxes = jnp.pad(jnp.take(dets, order, axis=0), ((0, blocks * _BLOCK - count), (0, 0)))
    place = lax.iota(jnp.int32, blocks * _BLOCK)
    threshold = _not_above(iou_threshold, dets.dtype)

    def suppress(block, kept):
        own, mine, candidates = (
            lax.dynamic_slice_in_dim(each, block * _BLOCK, _BLOCK) for each in (boxes, place, kept)
        )
        suppresses = (_overlaps(own, boxes) > threshold) & (mine[:, None] < place)
        inside = lax.dynamic_slice_in_dim(suppresses, block * _BLOCK, _BLOCK, axis=1)
        stay = _settled(candidates, inside)
        return kept & ~jnp.any(suppresses & stay[:, None], axis=0)

    kept = lax.fori_loop(jnp.int32(0), jnp.int32(blocks), suppress, place < count)
    return order, kept[:count]


def _count_kept(dets, scores, iou_threshold):
    if not dets.size:
        return jnp.int32(0)
    return jnp.sum(_kept(dets, scores, iou_threshold)[1], dtype=jnp.int32)


@lowering("torchvision::nms", size=_count_kept)
def nms(dets, scores, iou_threshold, *, size):
    if not dets.size:
        return jnp.zeros(size, jnp.int32)
    order, kept = _kept(dets, scores, iou_threshold)
    return jnp.take(order, true_places(kept, size), mode="clip")


class _Axis:
    """How the bins of regions lie along one dimension of the features."""

    def __init__(self, low, high, bins, length, sampling_ratio, aligned):
        self.bins, self.length = bins, length
        extent = high - low if aligned else jnp.maximum(high - low, 1)
        self.start, self.size = low, extent / bins
        if sampling_ratio > 0:
            self.samples = jnp.full(low.shape, sampling_ratio, jnp.int32)
            self.most = sampling_ratio
        else:
            self.samples = jnp.ceil(extent / bins).astype(jnp.int32)
            self.most = jnp.max(self.samples, initial=0)

    def pixels(self, step):
        """The two pixels around a sample of each bin of each region, with their weights."""
        start, size, samples = (each[:, None] for each in (self.start, self.size, self.samples))
        bins = lax.iota(start.dtype, self.bins)
        sample = start + bins * size + (step.astype(start.dtype) + 0.5) * size / samples
        counts = (step < samples) & (sample >= -1) & (sample <= self.length)
        sample = jnp.where(counts, jnp.maximum(sample, 0), 0)
        first = jnp.minimum(sample.astype(jnp.int32), self.length - 1)
        second = jnp.minimum(first + 1, self.length - 1)
        share = jnp.where(first == second, 0, sample - first)
        return (first, jnp.where(counts, 1 - share, 0)), (second, jnp.where(counts, share, 0))


class _Regions:
    """Every sample of every region, one in each of its bins at a time."""

    def __init__(self, rois, scale, pooled, sizes, sampling_ratio, aligned):
        edges = rois[:, 1:] * scale - (0.5 if aligned else 0.0)
        self.image = rois[:, 0].astype(jnp.int32)[:, None, None]
        self.axes = [
            _Axis(edges[:, place], edges[:, place + 2], bins, length, sampling_ratio, aligned)
            for place, bins, length in zip((1, 0), pooled, sizes, strict=True)
        ]
        rows, columns = self.axes
        self.count = jnp.maximum(rows.samples * columns.samples, 1)[:, None, None, None]

    def accumulate(self, start, add):
        """What ``add(total, pixels, weights)`` makes of a start, for each pixel of each sample."""
        rows, columns = self.axes

        def step(number, total):
            for row, row_weight in rows.pixels(number // columns.most):
                for column, column_weight in columns.pixels(number % columns.most):
                    pixels = self.image, row[:, :, None], column[:, None, :]
                    weights = row_weight[:, :, None] * column_weight[:, None, :]
                    total = add(total, pixels, weights[..., None])
            return total

        return lax.fori_loop(jnp.int32(0), jnp.int32(rows.most * columns.most), step, start)


def _opmath(operand):
    return cast(operand, dtypes.opmath(dtypes.to_torch(operand.dtype)))


@lowering("torchvision::roi_align")
def roi_align(input, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio, aligned):
    pooled, channels = (pooled_height, pooled_width), input.shape[1]
    shape = (rois.shape[0], *pooled, channels)
    if 0 in (*shape, *input.shape):
        return jnp.zeros((shape[0], channels, *pooled), input.dtype)
    features = _opmath(input).transpose(0, 2, 3, 1)
    regions = _Regions(
        _opmath(rois), spatial_scale, pooled, input.shape[2:], sampling_ratio, aligned
    )

    def gather(total, pixels, weights):
        return total + weights * features.at[pixels].get(mode="clip")

    total = regions.accumulate(jnp.zeros(shape, features.dtype), gather)
    return (total / regions.count).transpose(0, 3, 1, 2)


@lowering("torchvision::_roi_align_backward")
def _roi_align_backward(
    grad,
    rois,
    spatial_scale,
    pooled_height,
    pooled_width,
    batch_size,
    channels,
    height,
    width,
    sampling_ratio,
    aligned,
):
    shape, pooled = (batch_size, height, width, channels), (pooled_height, pooled_width)
    if 0 in (*shape, *grad.shape):
        return jnp.zeros((batch_size, channels, height, width), grad.dtype)
    regions = _Regions(
        _opmath(rois), spatial_scale, pooled, (height, width), sampling_ratio, aligned
    )
    share = _opmath(grad).transpose(0, 2, 3, 1) / regions.count

    def scatter(total, pixels, weights):
        return total.at[pixels].add(weights * share, mode="drop")

    total = regions.accumulate(jnp.zeros(shape, share.dtype), scatter)
    return total.transpose(0, 3, 1, 2)
