"""Ops defined by a view op: its copy, the writes through it and its backward."""

import jax.numpy as jnp
import torch
from torch.utils._python_dispatch import _disable_current_modes

from torch_tpu.lowering import dtypes, views
from torch_tpu.lowering.indexing import places_dtype
from torch_tpu.lowering.registry import lowering

aten = torch.ops.aten


def specs(view_op, sizes, dtype, *args, **kwargs):
    """The view specs that a view op gives over a contiguous tensor; PyTorch's own arithmetic."""
    with _disable_current_modes():
        base = torch.empty(sizes, dtype=dtype, device="meta")
        result = view_op(base, *args, **kwargs)
    return [
        views.ViewSpec(
            tuple(view.shape),
            view.stride(),
            view.storage_offset(),
            view.dtype,
            view.is_conj(),
            view.is_neg(),
        )
        for view in (result if isinstance(result, (list, tuple)) else [result])
    ]


def _specs_over(view_op, array, *args, **kwargs):
    return specs(view_op, array.shape, dtypes.to_torch(array.dtype), *args, **kwargs)


COPIES = {
    aten._conj_copy.default: aten._conj.default,
    aten._neg_view_copy.default: aten._neg_view.default,
    aten._reshape_alias_copy.default: aten._reshape_alias.default,
    aten._reshape_copy.default: aten.view.default,
    aten.as_strided_copy.default: aten.as_strided.default,
    aten.diagonal_copy.default: aten.diagonal.default,
    aten.expand_copy.default: aten.expand.default,
    aten.narrow_copy.default: aten.narrow.default,
    aten.permute_copy.default: aten.permute.default,
    aten.select_copy.int: aten.select.int,
    aten.slice_copy.Tensor: aten.slice.Tensor,
    aten.squeeze_copy.default: aten.squeeze.default,
    aten.squeeze_copy.dim: aten.squeeze.dim,
    aten.squeeze_copy.dims: aten.squeeze.dims,
    aten.t_copy.default: aten.t.default,
    aten.transpose_copy.int: aten.transpose.int,
    aten.unfold_copy.default: aten.unfold.default,
    aten.unsqueeze_copy.default: aten.unsqueeze.default,
    aten.view_as_complex_copy.default: aten.view_as_complex.default,
    aten.view_as_real_copy.default: aten.view_as_real.default,
    aten.view_copy.default: aten.view.default,
    aten.view_copy.dtype: aten.view.dtype,
}

LIST_COPIES = {
    aten.split_copy.Tensor: aten.split.Tensor,
    aten.split_with_sizes_copy.default: aten.split_with_sizes.default,
    aten.unbind_copy.int: aten.unbind.int,
    aten.unsafe_split.Tensor: aten.split.Tensor,
    aten.unsafe_split_with_sizes.default: aten.split_with_sizes.default,
}

SCATTERS = {
    aten.as_strided_scatter.default: aten.as_strided.default,
    aten.diagonal_scatter.default: aten.diagonal.default,
    aten.select_scatter.default: aten.select.int,
    aten.slice_scatter.default: aten.slice.Tensor,
}

BACKWARDS = {
    aten.diagonal_backward.default: aten.diagonal.default,
    aten.select_backward.default: aten.select.int,
    aten.slice_backward.default: aten.slice.Tensor,
}


def _copy(view_op):
    def rule(self, *args, **kwargs):
        (spec,) = _specs_over(view_op, self, *args, **kwargs)
        return views.read(self, spec)

    return rule


def _list_copy(view_op):
    def rule(self, *args):
        return [views.read(self, spec) for spec in _specs_over(view_op, self, *args)]

    return rule


def _scatter(view_op):
    def rule(self, src, *args):
        (spec,) = _specs_over(view_op, self, *args)
        return views.write(self, spec, jnp.broadcast_to(src, spec.sizes).astype(self.dtype))

    return rule


def _backward(view_op):
    def rule(grad_output, input_sizes, *args):
        (spec,) = specs(view_op, input_sizes, dtypes.to_torch(grad_output.dtype), *args)
        return views.write(jnp.zeros(input_sizes, grad_output.dtype), spec, grad_output)

    return rule


for _table, _make in (
    (COPIES, _copy),
    (LIST_COPIES, _list_copy),
    (SCATTERS, _scatter),
    (BACKWARDS, _backward),
):
    for _overload, _view_op in _table.items():
        lowering(_overload)(_make(_view_op))


@lowering(aten.unfold_backward.default)
def unfold_backward(grad_in, input_sizes, dim, size, step):
    grad = jnp.zeros(input_sizes, grad_in.dtype)
    if not input_sizes:
        return grad_in.reshape(())
    if step >= size:  # no two windows share an element
        (spec,) = _specs_over(aten.unfold.default, grad, dim, size, step)
        return views.write(grad, spec, grad_in)
    dim %= len(input_sizes)
    dtype = places_dtype(input_sizes[dim])
    starts = step * jnp.arange(grad_in.shape[dim], dtype=dtype)
    places = starts[:, None] + jnp.arange(size, dtype=dtype)
    windows = jnp.moveaxis(grad_in, -1, dim + 1)
    return grad.at[(slice(None),) * dim + (places,)].add(windows, mode="promise_in_bounds")


@lowering(
    aten.alias_copy.default,
    aten.detach_copy.default,
    aten.lift.default,
    aten.lift_fresh_copy.default,
    aten.clone.default,
)
def clone(self, *, memory_format=None):
    return self
