"""Distinct elements and slices; how many there are depends on the values."""

import jax.numpy as jnp
import torch
from jax import lax

from torch_tpu.lowering import sorting
from torch_tpu.lowering.registry import lowering

aten = torch.ops.aten


def _differs(rows):
    """Where a row isn't what the one before it is."""
    changed = jnp.any(rows[1:] != rows[:-1], axis=tuple(range(1, rows.ndim)))
    return jnp.concatenate([jnp.ones(min(1, rows.shape[0]), bool), changed])


def _ordered(rows):
    """The permutation that sorts rows lexicographically, equal ones as they stood."""
    order = lax.iota(jnp.int32, rows.shape[0])
    if rows.ndim == 1:
        return sorting.ascending(rows, 0)[1]
    columns = rows.reshape(rows.shape[0], -1).T

    def by_column(step, order):
        column = columns[columns.shape[0] - 1 - step]
        return order[sorting.ascending(column[order], 0)[1]]

    return lax.fori_loop(0, columns.shape[0], by_column, order) if columns.size else order


def _runs(rows, order, size, return_inverse, return_counts):
    """The first row of each run of equal rows taken in an order, whose run each is in, lengths."""
    rows = rows[order]
    group = jnp.cumsum(_differs(rows), dtype=jnp.int32) - 1
    values = jnp.zeros((size, *rows.shape[1:]), rows.dtype).at[group].set(rows, mode="drop")
    inverse = counts = jnp.zeros(0, jnp.int32)
    if return_inverse:
        inverse = jnp.zeros_like(group).at[order].set(group)
    if return_counts:
        counts = jnp.zeros(size, jnp.int32).at[group].add(1, mode="drop")
    return values, inverse, counts


def _sorted_runs(rows, size, return_inverse, return_counts):
    return _runs(rows, _ordered(rows), size, return_inverse, return_counts)


def _consecutive_runs(rows, size, return_inverse, return_counts):
    return _runs(rows, slice(None), size, return_inverse, return_counts)


def _count(rows):
    return jnp.sum(_differs(rows), dtype=jnp.int32)


def _count_sorted(rows):
    return _count(rows[_ordered(rows)])


def _along(runs, self, dim, size, return_inverse, return_counts):
    """Runs of slices along a dimension or, with none, of all elements."""
    if dim is None:
        values, inverse, counts = runs(self.reshape(-1), size, return_inverse, return_counts)
        return values, inverse.reshape(self.shape) if return_inverse else inverse, counts
    rows = jnp.moveaxis(self, dim, 0)
    values, inverse, counts = runs(rows, size, return_inverse, return_counts)
    return jnp.moveaxis(values, 0, dim), inverse, counts


def _unique_size(self, *unused):
    return _count_sorted(self.reshape(-1))


@lowering(aten._unique2.default, size=_unique_size)
def _unique2(self, sorted=True, return_inverse=False, return_counts=False, *, size):
    return _along(_sorted_runs, self, None, size, return_inverse, return_counts)


@lowering(aten._unique.default, size=_unique_size)
def _unique(self, sorted=True, return_inverse=False, *, size):
    return _unique2(self, sorted, return_inverse, size=size)[:2]


def _unique_dim_size(self, dim, *unused):
    return _count_sorted(jnp.moveaxis(self, dim, 0))


@lowering(aten.unique_dim.default, size=_unique_dim_size)
def unique_dim(self, dim, sorted=True, return_inverse=False, return_counts=False, *, size):
    return _along(_sorted_runs, self, dim, size, return_inverse, return_counts)


def _consecutive_size(self, return_inverse=False, return_counts=False, dim=None):
    return _count(self.reshape(-1) if dim is None else jnp.moveaxis(self, dim, 0))


@lowering(aten.unique_consecutive.default, size=_consecutive_size)
def unique_consecutive(self, return_inverse=False, return_counts=False, dim=None, *, size):
    return _along(_consecutive_runs, self, dim, size, return_inverse, return_counts)


def _dim_consecutive_size(self, dim, *unused):
    return _consecutive_size(self, dim=dim)


@lowering(aten.unique_dim_consecutive.default, size=_dim_consecutive_size)
def unique_dim_consecutive(self, dim, return_inverse=False, return_counts=False, *, size):
    return unique_consecutive(self, return_inverse, return_counts, dim, size=size)
