"""Variances, order statistics and histograms."""

import jax.numpy as jnp
import numpy as np
import torch
from jax import lax

from torch_tpu.lowering import reductions, sizes, sorting
from torch_tpu.lowering.checks import check
from torch_tpu.lowering.registry import lowering

aten = torch.ops.aten


def _variance_and_mean(self, dim, correction, keepdim):
    """In two passes: the mean, then the mean square distance from it."""
    dims = reductions.axes(self, dim)
    self = reductions.to_opmath(self)
    elements = sizes.number(sizes.count(self, dims), self.real.dtype)
    mean = jnp.sum(self, dims, keepdims=True) / elements
    distance = sizes.filled(sizes.like(self - mean, self), 0, dims)
    square = distance.real**2 + distance.imag**2 if jnp.iscomplexobj(self) else distance**2
    correction = 1 if correction is None else correction
    freedom = jnp.maximum(elements - lax.convert_element_type(correction, elements.dtype), 0)
    variance = jnp.sum(square, dims, keepdims=keepdim) / freedom
    return variance, mean.reshape(variance.shape)


@lowering(aten.var_mean.correction)
def var_mean(self, dim=None, *, correction=None, keepdim=False):
    return _variance_and_mean(self, dim, correction, keepdim)


@lowering(aten.std_mean.correction)
def std_mean(self, dim=None, *, correction=None, keepdim=False):
    variance, mean = _variance_and_mean(self, dim, correction, keepdim)
    return jnp.sqrt(variance), mean


@lowering(aten.var.correction)
def var(self, dim=None, *, correction=None, keepdim=False):
    return _variance_and_mean(self, dim, correction, keepdim)[0]


@lowering(aten.std.correction)
def std(self, dim=None, *, correction=None, keepdim=False):
    return jnp.sqrt(_variance_and_mean(self, dim, correction, keepdim)[0])


def _at_rank(self, dim, keepdim, rank):
    """The element of a rank along a dimension and where it was; ``rank(nans)`` gives the rank."""
    shape = self.shape
    if self.ndim == 0:
        self, dim = self.reshape(1), 0
    values, places = sorting.ascending(self, dim % self.ndim)
    nans = jnp.zeros((), jnp.int32)
    if jnp.issubdtype(self.dtype, jnp.floating):
        known = sizes.filled(self, 0, (dim % self.ndim,))
        nans = jnp.sum(jnp.isnan(known), dim, keepdims=True, dtype=jnp.int32)
    ranks = jnp.asarray(rank(nans), jnp.int32)
    index_shape = list(self.shape)
    index_shape[dim] = 1
    ranks = jnp.broadcast_to(ranks, index_shape)
    result = tuple(jnp.take_along_axis(each, ranks, dim) for each in (values, places))
    if keepdim or not shape:
        return tuple(each.reshape(index_shape if shape else ()) for each in result)
    return tuple(jnp.squeeze(each, dim) for each in result)


def _middle(length, skip_nans):
    """The rank of the lower median; nans are ranked last and win where they aren't skipped."""

    def rank(nans):
        middle = jnp.maximum(length - nans - 1, 0) // 2
        return middle if skip_nans else jnp.where(nans > 0, length - nans, middle)

    return rank


def _length(self, dim):
    return sizes.size(self, dim) if self.ndim else 1


@lowering(aten.median.dim)
def median_dim(self, dim, keepdim=False):
    return _at_rank(self, dim, keepdim, _middle(_length(self, dim), skip_nans=False))


@lowering(aten.nanmedian.dim)
def nanmedian_dim(self, dim, keepdim=False):
    return _at_rank(self, dim, keepdim, _middle(_length(self, dim), skip_nans=True))


def _of_all(self, by_dim):
    if self.size == 0:
        floating = jnp.issubdtype(self.dtype, jnp.floating)
        return jnp.full((), np.nan if floating else jnp.iinfo(self.dtype).min, self.dtype)
    return by_dim(sizes.flat(self), 0)[0]


@lowering(aten.median.default)
def median(self):
    return _of_all(self, median_dim)


@lowering(aten.nanmedian.default)
def nanmedian(self):
    return _of_all(self, nanmedian_dim)


@lowering(aten.kthvalue.default)
def kthvalue(self, k, dim=-1, keepdim=False):
    return _at_rank(self, dim, keepdim, lambda nans: k - 1)


@lowering(aten.mode.default)
def mode(self, dim=-1, keepdim=False):
    shape = self.shape
    if self.ndim == 0:
        self, dim = self.reshape(1), 0
    values, places = (
        jnp.moveaxis(each, dim, -1) for each in sorting.ascending(self, dim % self.ndim)
    )
    differs = values[..., 1:] != values[..., :-1]
    edge = jnp.ones((*values.shape[:-1], 1), bool)
    starts = jnp.concatenate([edge, differs], -1)
    ends = jnp.concatenate([differs, edge], -1)
    rank = lax.broadcasted_iota(jnp.int32, values.shape, values.ndim - 1)
    begun = lax.cummax(jnp.where(starts, rank, 0), axis=values.ndim - 1)
    runs = jnp.where(ends, rank - begun + 1, 0)
    longest = jnp.max(runs, -1, keepdims=True)
    found = reductions.first_place(runs == longest, -1, True)
    result = (jnp.take_along_axis(each, found, -1) for each in (values, places))
    result = (jnp.moveaxis(each, -1, dim) for each in result)
    if not shape:
        return tuple(each.reshape(()) for each in result)
    return tuple(each if keepdim else jnp.squeeze(each, dim) for each in result)


def _bincount_size(self, weights=None, minlength=0):
    longest = jnp.max(self.astype(jnp.int64), initial=-1) + 1
    return jnp.maximum(longest, minlength)


@lowering(aten.bincount.default, size=_bincount_size)
def bincount(self, weights=None, minlength=0, *, size):
    check(self >= 0, "bincount only supports 1-d non-negative integral inputs.", RuntimeError)
    if weights is None:
        weights = jnp.ones(self.shape, jnp.int32)
    elif weights.dtype != jnp.float32:
        weights = weights.astype(jnp.float64)
    return jnp.zeros(size, weights.dtype).at[self.astype(jnp.int32)].add(weights, mode="drop")


def _range(self, low, high, margin):
    """The ends of a histogram, widened by a margin where they meet."""
    meet = low == high
    return jnp.where(meet, low - margin, low), jnp.where(meet, high + margin, high)


@lowering(aten.histc.default)
def histc(self, bins=100, min=0, max=0):
    points = reductions.to_opmath(self).reshape(-1)
    low, high = (lax.convert_element_type(end, points.dtype) for end in (min, max))
    if self.size:
        chosen = low != high
        low = jnp.where(chosen, low, jnp.min(points))
        high = jnp.where(chosen, high, jnp.max(points))
    low, high = _range(points, low, high, 1)
    inside = (points >= low) & (points <= high)
    # PyTorch's own order of operations, so that points on an edge fall on the same side.
    place = ((points - low) / (high - low) * bins).astype(jnp.int32)
    place = jnp.where(inside, jnp.minimum(place, bins - 1), bins)
    return jnp.zeros(bins, jnp.int32).at[place].add(1, mode="drop").astype(points.dtype)


def _bin_edges(self, bins, range):
    """Edges of equal bins along each coordinate of points in rows; None means the data's range."""
    edges = []
    for axis, number in enumerate(bins):
        if range is not None:
            low, high = (lax.convert_element_type(end, self.dtype) for end in range[2 * axis :][:2])
        elif self.shape[0]:
            low, high = jnp.min(self[:, axis]), jnp.max(self[:, axis])
        else:
            low, high = np.zeros((), self.dtype), np.ones((), self.dtype)
        low, high = _range(self, low, high, np.array(0.5, self.dtype))
        step = (high - low) / np.array(number, self.dtype)
        place = jnp.arange(number + 1, dtype=self.dtype)
        rising, falling = low + step * place, high - step * (number - place)
        edges.append(jnp.where(place < (number + 1) // 2, rising, falling))
    return edges


def _histogram(self, edges, weight, density):
    """Weights of points in rows, gathered into the bins of a grid."""
    shape = tuple(each.shape[0] - 1 for each in edges)
    cell = jnp.zeros(self.shape[0], jnp.int32)
    inside = jnp.ones(self.shape[0], bool)
    for axis, (each, number) in enumerate(zip(edges, shape, strict=True)):
        points = self[:, axis]
        place = sorting.places(each, points, right=True) - 1
        inside &= (points >= each[0]) & (points <= each[-1])
        cell = cell * number + jnp.clip(place, 0, number - 1)
    weight = jnp.ones(self.shape[0], self.dtype) if weight is None else weight.reshape(-1)
    size = int(np.prod(shape))
    cell = jnp.where(inside, cell, size)
    total = jnp.zeros(size, self.dtype).at[cell].add(weight.astype(self.dtype), mode="drop")
    total = total.reshape(shape)
    if density:
        total = total / jnp.sum(total)
        for axis, each in enumerate(edges):
            width = jnp.expand_dims(jnp.diff(each), [a for a in range(len(shape)) if a != axis])
            total = total / width
    return total


def _rows(self):
    return self.reshape(-1, self.shape[-1])


@lowering(aten.histogram.bins_tensor)
def histogram_bins_tensor(self, bins, *, weight=None, density=False):
    return _histogram(self.reshape(-1, 1), [bins], weight, density), bins


@lowering(aten.histogram.bin_ct)
def histogram_bin_ct(self, bins=100, *, range=None, weight=None, density=False):
    points = self.reshape(-1, 1)
    edges = _bin_edges(points, [bins], range)
    return _histogram(points, edges, weight, density), edges[0]


@lowering(aten._histogramdd_bin_edges.default)
def _histogramdd_bin_edges(self, bins, *, range=None, weight=None, density=False):
    return _bin_edges(_rows(self), bins, range)


@lowering(aten._histogramdd_from_bin_cts.default)
def _histogramdd_from_bin_cts(self, bins, *, range=None, weight=None, density=False):
    return _histogram(_rows(self), _bin_edges(_rows(self), bins, range), weight, density)


@lowering(aten._histogramdd_from_bin_tensors.default)
def _histogramdd_from_bin_tensors(self, bins, *, weight=None, density=False):
    return _histogram(_rows(self), bins, weight, density)
