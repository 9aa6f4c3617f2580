"""View ops over arrays with dynamic sizes, as copies.

A static view is decomposed by its strides (views.py); these go by the op itself, so that what they
give starts at place 0 of each dimension and its padding comes last. Sizes and places may be Sizes.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import jax.numpy as jnp
import torch
from jax import lax

from torch_tpu.lowering import merged_rows, sizes, view_ops
from torch_tpu.lowering.sizes import Size

aten = torch.ops.aten

Array = Any

_FURTHEST = 2**31 - 1  # a larger end stands for the dimension's own


def view(self: Array, size: Any, **options: Any) -> Array:
    """Any op that gives the elements another shape; one size may be -1."""
    target = list(size)
    if -1 in target:
        others = math.prod(each for each in target if each != -1)
        target[target.index(-1)] = math.prod(sizes.sizes_of(self)) // others
    return sizes.reshape(self, target)


def expand(self: Array, size: Any, *, implicit: bool = False) -> Array:
    own = (1,) * (len(size) - self.ndim) + sizes.sizes_of(self)
    target = [
        wanted if sizes.is_one(given) and wanted != -1 else given
        for given, wanted in zip(own, size, strict=True)
    ]
    return sizes.sized(jnp.broadcast_to(self, tuple(map(operator.index, target))), target)


def permute(self: Array, dims: Any) -> Array:
    order = [dim % self.ndim for dim in dims]
    result = sizes.transposed(self, order)
    origin = merged_rows.transposed_origin(self) if order == [1, 0] else None
    return result if origin is None else sizes.came_from(result, origin)


def transpose(self: Array, dim0: int, dim1: int) -> Array:
    order = list(range(self.ndim))
    if order:
        order[dim0], order[dim1] = order[dim1], order[dim0]
    return permute(self, order)


def t(self: Array) -> Array:
    return transpose(self, 0, -1)


def unsqueeze(self: Array, dim: int) -> Array:
    place, own = dim % (self.ndim + 1), sizes.sizes_of(self)
    return sizes.sized(jnp.expand_dims(self, place), (*own[:place], 1, *own[place:]))


def squeeze(self: Array, dim: Any = None) -> Array:
    own = sizes.sizes_of(self)
    asked = range(self.ndim) if dim is None else [dim] if isinstance(dim, int) else dim
    asked = {each % self.ndim for each in asked} if self.ndim else set()
    dropped = tuple(each for each in asked if sizes.is_one(own[each]))
    kept = [size for place, size in enumerate(own) if place not in dropped]
    return sizes.sized(lax.squeeze(self, dropped), kept)


def same(self: Array, **options: Any) -> Array:
    return self


# Places along a dimension: what is negative counts from the end.


def _place(place: Any, length: Any) -> Any:
    if isinstance(place, int):
        return place if place >= 0 else place + length
    number = sizes.value(place)
    is_place = isinstance(place, sizes.Size) and place.least >= 0
    return number if is_place else jnp.where(number < 0, number + length, number)


def _end(end: Any, length: Any) -> Any:
    is_beyond = end is None or isinstance(end, int) and end > _FURTHEST
    return length if is_beyond else _smaller(_place(end, length), length)


def select(self: Array, dim: int, index: Any) -> Array:
    dim %= self.ndim
    own = sizes.sizes_of(self)
    place = _place(index, sizes.size(self, dim))
    result = lax.dynamic_index_in_dim(self, place, dim, keepdims=False)
    return sizes.sized(result, (*own[:dim], *own[dim + 1 :]))


def slice_(self: Array, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Array:
    dim %= self.ndim
    own, length = sizes.sizes_of(self), sizes.size(self, dim)
    first = _place(0 if start is None else start, length)
    last = _end(end, length)
    first = max(first, 0) if isinstance(first, int) else jnp.clip(first, 0, length)
    self = lax.slice_in_dim(_from_place(self, first, dim), 0, None, step, dim)
    length = _larger(-((first - last) // step), 0)
    return sizes.sized(self, (*own[:dim], length, *own[dim + 1 :]))


def _from_place(self: Array, place: Any, dim: int) -> Array:
    if isinstance(place, int):
        return lax.slice_in_dim(self, min(place, self.shape[dim]), None, axis=dim)
    return sizes.from_place(self, place, dim)


def _smaller(left: Any, right: Any) -> Any:
    both = isinstance(left, int) and isinstance(right, int)
    return min(left, right) if both else jnp.minimum(left, right)


def _larger(left: Any, right: Any) -> Any:
    both = isinstance(left, int) and isinstance(right, int)
    return max(left, right) if both else jnp.maximum(left, right)


def narrow(self: Array, dim: int, start: Any, length: Any) -> Array:
    dim %= self.ndim
    first = _place(start, sizes.size(self, dim))
    own = sizes.sizes_of(self)
    rest = _from_place(self, first, dim)
    return sizes.sized(
        lax.slice_in_dim(rest, 0, min(operator.index(length), rest.shape[dim]), axis=dim),
        (*own[:dim], length, *own[dim + 1 :]),
    )


def split_with_sizes(self: Array, split_sizes: Any, dim: int = 0) -> list[Array]:
    parts: list[Array] = []
    start: Any = 0
    for length in split_sizes:
        parts.append(narrow(self, dim, start, length))
        start = start + length
    return parts


def split(self: Array, split_size: Any, dim: int = 0) -> list[Array]:
    """Parts of one size, the last of what is left; their number must not depend on sizes."""
    whole = sizes.sizes_of(self)[dim]
    number = -(-operator.index(whole) // operator.index(split_size))
    last = whole - split_size * (number - 1)
    return split_with_sizes(self, [split_size] * (number - 1) + [last], dim)


def unbind(self: Array, dim: int = 0) -> list[Array]:
    return [select(self, dim, place) for place in range(self.shape[dim])]


# Gradients of views and writes through them.


def slice_scatter(
    self: Array, src: Array, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Array:
    dim %= self.ndim
    length = sizes.size(self, dim)
    first = _place(0 if start is None else start, length)
    last = _end(end, length)
    place = lax.broadcasted_iota(jnp.int32, self.shape, dim)
    hit = (place >= first) & (place < last) & ((place - first) % step == 0)
    source = jnp.clip((lax.iota(jnp.int32, self.shape[dim]) - first) // step, 0)
    source = jnp.take(src, source, axis=dim, mode="clip")
    return sizes.like(jnp.where(hit, source.astype(self.dtype), self), self)


def select_scatter(self: Array, src: Array, dim: int, index: Any) -> Array:
    dim %= self.ndim
    hit = lax.broadcasted_iota(jnp.int32, self.shape, dim) == _place(index, sizes.size(self, dim))
    source = jnp.expand_dims(src, dim).astype(self.dtype)
    return sizes.like(jnp.where(hit, source, self), self)


def _zeros(input_sizes: Any, dtype: Any) -> Array:
    return sizes.sized(jnp.zeros(tuple(map(operator.index, input_sizes)), dtype), input_sizes)


def slice_backward(
    grad_output: Array, input_sizes: Any, dim: int, start: Any, end: Any, step: int
) -> Array:
    zeros = _zeros(input_sizes, grad_output.dtype)
    return slice_scatter(zeros, grad_output, dim, start, end, step)


def select_backward(grad_output: Array, input_sizes: Any, dim: int, index: Any) -> Array:
    return select_scatter(_zeros(input_sizes, grad_output.dtype), grad_output, dim, index)


def is_static_along(self: Array, dim: int) -> bool:
    return not isinstance(sizes.sizes_of(self)[dim], Size)


def _splits_statically(self: Array, split_size: Any, dim: int) -> bool:
    """Whether the number of parts is the same for all sizes."""
    return is_static_along(self, dim) or isinstance(split_size, Size)


# The form of each view op, whose copy has the same.
FORMS = {
    aten.view.default: view,
    aten._unsafe_view.default: view,
    aten.reshape.default: view,
    aten.expand.default: expand,
    aten.permute.default: permute,
    aten.transpose.int: transpose,
    aten.t.default: t,
    aten.unsqueeze.default: unsqueeze,
    aten.squeeze.default: squeeze,
    aten.squeeze.dim: squeeze,
    aten.squeeze.dims: squeeze,
    aten.alias.default: same,
    aten.alias_copy.default: same,
    aten.detach.default: same,
    aten.detach_copy.default: same,
    aten.clone.default: same,
    aten.lift_fresh_copy.default: same,
    aten.select.int: select,
    aten.slice.Tensor: slice_,
    aten.narrow.default: narrow,
    aten.split_with_sizes.default: split_with_sizes,
    aten.split.Tensor: split,
    aten.unbind.int: unbind,
    aten.slice_scatter.default: slice_scatter,
    aten.select_scatter.default: select_scatter,
    aten.slice_backward.default: slice_backward,
    aten.select_backward.default: select_backward,
}
FORMS |= {
    copy: FORMS[view_op]
    for copy, view_op in (view_ops.COPIES | view_ops.LIST_COPIES).items()
    if view_op in FORMS
}

# Whether a form serves given arguments, where it doesn't serve all.
CONDITIONS = {split: _splits_statically, unbind: is_static_along}
