"""Which ops run with dynamic sizes, and how: the interpreter of a graph asks here for each node.

``serves`` says whether a call can run at bounds; ``call`` runs it. Every op of ``table`` is
compared with PyTorch by tests/dynamo/test_bounded_rules.py; others need their sizes fixed.
"""

from __future__ import annotations

import dataclasses
import functools
import operator
from collections.abc import Callable, Iterable
from typing import Any

import jax
import jax.numpy as jnp
import torch
from torch.utils._pytree import tree_leaves, tree_map

from torch_tpu.lowering import attended_sizes, dynamic_views, merged_rows, registry, sizes
from torch_tpu.lowering.sizes import Size

aten, prims = torch.ops.aten, torch.ops.prims

Overload = torch._ops.OpOverload


@dataclasses.dataclass(frozen=True)
class Form:
    """How an op runs at bounds.

    ``function`` stands in for the rule. ``pads`` says that the rule finds zeros for padding, which
    add nothing to sums and are places that exist; other rules are indifferent, or fill it in.
    ``ints`` is what becomes of a Size among the integers: "bound" where they are shapes, "size"
    where the rule reads Sizes; elsewhere there may be none. ``serves(*args, **kwargs)`` looks at a
    call's arguments.
    """

    function: Callable[..., Any] | None = None
    pads: bool = True
    ints: str | None = None
    serves: Callable[..., bool] | None = None


def _no_dynamic_beyond(trailing: int) -> Callable[..., bool]:
    """Every array's last dimensions must be static."""

    def serves(*args: Any, **kwargs: Any) -> bool:
        return all(
            dim < array.ndim - trailing
            for array in _arrays((args, kwargs))
            for dim in sizes.dynamic_dims(array)
        )

    return serves


def _starts_static(self: Any, pad: Any, value: Any = 0) -> bool:
    return not any(isinstance(amount, Size) for amount in pad[0::2])


def _without_masks(self: Any, indices: Any, *rest: Any) -> bool:
    return all(index is None or index.dtype not in (bool, "uint8") for index in indices)


def _zeros_add_nothing(self: Any, ord: Any = 2, *rest: Any, **options: Any) -> bool:
    return ord >= 0


def _has_static_boundaries(self: Any, boundaries: Any, **options: Any) -> bool:
    return not sizes.dynamic_dims(boundaries)


def _counts_whole_windows(
    self: Any,
    kernel_size: Any,
    stride: Any = (),
    padding: Any = (0,),
    ceil_mode: bool = False,
    *rest: Any,
) -> bool:
    """Windows that hang over the end are divided by a number that the size decides."""
    return _no_dynamic_beyond(len(kernel_size))(self) or not (any(padding) or ceil_mode)


_ELEMENTWISE_MODULES = (
    "pointwise",
    "pointwise_logic",
    "pointwise_select",
    "pointwise_unary",
    "activations",
)

# In these modules, but not element by element.
_NOT_ELEMENTWISE = {
    aten.glu.default,
    aten.glu_backward.default,
    aten.glu_jvp.default,
    aten.glu_backward_jvp.default,
}

_ELEMENTWISE = (
    aten._to_copy.default,
    prims.convert_element_type.default,
    prims.device_put.default,
    aten.masked_fill.Scalar,
    aten.masked_fill.Tensor,
    aten.mse_loss_backward.default,
    aten.smooth_l1_loss_backward.default,
    aten.huber_loss_backward.default,
    aten.soft_margin_loss_backward.default,
    aten.binary_cross_entropy_backward.default,
    aten.view_as_real_copy.default,
    aten.xlogy.Tensor,
    aten.xlogy.Scalar_Self,
    aten.xlogy.Scalar_Other,
    aten.diag_embed.default,
    aten.native_dropout.default,
    aten.native_dropout_backward.default,
    aten.bernoulli.p,
    aten.uniform.default,
    aten.normal_functional.default,
    aten.zeros_like.default,
    aten.ones_like.default,
    aten.full_like.default,
    aten.nll_loss_backward.default,
    aten.nll_loss2d_backward.default,
)

_REDUCING = (
    aten.sum.default,
    aten.nansum.default,
    aten.mean.default,
    aten.mean.dim,
    aten.prod.default,
    aten.prod.dim_int,
    aten.any.default,
    aten.any.dim,
    aten.any.dims,
    aten.all.default,
    aten.all.dim,
    aten.all.dims,
    aten.amax.default,
    aten.amin.default,
    aten.max.default,
    aten.min.default,
    aten.max.dim,
    aten.min.dim,
    aten.aminmax.default,
    aten.argmax.default,
    aten.argmin.default,
    aten.count_nonzero.default,
    aten.count_nonzero.dim_IntList,
    aten.logsumexp.default,
    aten.var.correction,
    aten.std.correction,
    aten.var_mean.correction,
    aten.std_mean.correction,
    aten.median.default,
    aten.median.dim,
    aten.nanmedian.default,
    aten.nanmedian.dim,
    aten.kthvalue.default,
    aten.cumsum.default,
    aten.cumprod.default,
    aten.cummax.default,
    aten.cummin.default,
    aten.logcumsumexp.default,
    aten.sort.default,
    aten.sort.stable,
    aten.topk.default,
    aten._softmax.default,
    aten._log_softmax.default,
    aten._safe_softmax.default,
    aten._softmax_backward_data.default,
    aten._log_softmax_backward_data.default,
    aten._masked_softmax.default,
    aten._masked_softmax_backward.default,
    aten.mse_loss.default,
    aten.smooth_l1_loss.default,
    aten.huber_loss.default,
    aten.soft_margin_loss.default,
    aten.binary_cross_entropy.default,
    aten.binary_cross_entropy_with_logits.default,
    aten.nll_loss_forward.default,
    aten.nll_loss2d_forward.default,
)

_PRODUCTS = (
    aten.bmm.default,
    aten.baddbmm.default,
    aten.addbmm.default,
    aten._addmm_activation.default,
    aten.mv.default,
    aten.addmv.default,
    aten.addr.default,
    aten.dot.default,
)

_CONVOLUTION = (
    aten.convolution.default,
    aten.convolution_backward.default,
)

_PLACES = (
    aten.cat.default,
    aten.stack.default,
    aten.flip.default,
    aten.roll.default,
    aten.gather.default,
    aten.scatter.src,
    aten.scatter.value,
    aten.scatter_add.default,
    aten.scatter.reduce,
    aten.scatter_reduce.two,
    aten.index_select.default,
    aten.index_add.default,
    aten.index_copy.default,
    aten.index_fill.int_Scalar,
    aten.index_fill.int_Tensor,
    aten.index_reduce.default,
    aten.take.default,
    aten.put.default,
    aten.embedding.default,
    aten.embedding_dense_backward.default,
)

# Their numbers are eager mode's: an element's place is that among the true sizes.
DRAWING = (
    aten.bernoulli.default,
    aten.rand.default,
    aten.randn.default,
    aten.rand_like.default,
    aten.randn_like.default,
    aten.randint.default,
    aten.randint.low,
    aten.randint_like.default,
    aten.randint_like.low_dtype,
    aten.normal.float_float,
)

_WITH_SHAPES = (
    aten.full.default,
    aten.zeros.default,
    aten.ones.default,
    aten.scalar_tensor.default,
    aten.new_zeros.default,
    aten.new_ones.default,
    aten.new_full.default,
    aten.diagonal_copy.default,
    aten.diagonal_backward.default,
    aten.unfold_copy.default,
    aten.unfold_backward.default,
    aten.eye.m,
    aten.eye.default,
    aten.native_layer_norm.default,
    aten.native_layer_norm_backward.default,
    aten._fused_rms_norm.default,
    aten._fused_rms_norm_backward.default,
)

_WITH_SIZES = (
    aten.arange.default,
    aten.arange.start,
    aten.arange.start_step,
    aten.tril.default,
    aten.triu.default,
    aten.repeat.default,
    aten.native_group_norm.default,
    aten.native_group_norm_backward.default,
)

_BY_CHANNEL = (
    aten.native_batch_norm.default,
    aten._native_batch_norm_legit_functional.default,
    aten._native_batch_norm_legit_no_training.default,
    aten._native_batch_norm_legit.no_stats,
    aten.native_batch_norm_backward.default,
)

# Ops whose last dimensions must be static, by how many.
_BATCHED = {
    1: (
        aten.reflection_pad1d.default,
        aten.reflection_pad1d_backward.default,
        aten.replication_pad1d.default,
        aten.replication_pad1d_backward.default,
        aten.upsample_nearest1d.default,
        aten.upsample_linear1d.default,
        aten.view_as_complex_copy.default,
    ),
    2: (
        aten.avg_pool2d_backward.default,
        aten.max_pool2d_with_indices.default,
        aten.max_pool2d_with_indices_backward.default,
        aten._adaptive_avg_pool2d.default,
        aten._adaptive_avg_pool2d_backward.default,
        aten.adaptive_max_pool2d.default,
        aten.reflection_pad2d.default,
        aten.reflection_pad2d_backward.default,
        aten.replication_pad2d.default,
        aten.replication_pad2d_backward.default,
        aten.upsample_nearest2d.default,
        aten.upsample_nearest2d_backward.default,
        aten.upsample_bilinear2d.default,
        aten.upsample_bilinear2d_backward.default,
        aten.upsample_bicubic2d.default,
    ),
    3: (
        aten.pixel_shuffle.default,
        aten.pixel_unshuffle.default,
        aten.channel_shuffle.default,
    ),
}


_CONDITIONAL = {
    aten.index.Tensor: Form(serves=_without_masks),
    aten._unsafe_index.Tensor: Form(serves=_without_masks),
    aten.index_put.default: Form(serves=_without_masks),
    aten._unsafe_index_put.default: Form(serves=_without_masks),
    aten.constant_pad_nd.default: Form(ints="bound", serves=_starts_static),
    aten.avg_pool2d.default: Form(serves=_counts_whole_windows),
    aten.linalg_vector_norm.default: Form(serves=_zeros_add_nothing),
    aten.bucketize.Tensor: Form(pads=False, serves=_has_static_boundaries),
    aten.glu.default: Form(pads=False, serves=dynamic_views.is_static_along),
    aten.glu_backward.default: Form(
        pads=False, serves=lambda grad_output, self, dim: dynamic_views.is_static_along(self, dim)
    ),
}


def _in_elementwise_modules() -> Iterable[Overload]:
    modules = {f"torch_tpu.lowering.{name}" for name in _ELEMENTWISE_MODULES}
    for overload, rule in registry.rules().items():
        if rule.function.__module__ in modules and overload not in _NOT_ELEMENTWISE:
            yield overload


@functools.cache
def table() -> dict[Overload, Form]:
    """Every op that runs with dynamic sizes, by its functional overload."""
    views = {
        overload: Form(
            function, pads=False, ints="size", serves=dynamic_views.CONDITIONS.get(function)
        )
        for overload, function in dynamic_views.FORMS.items()
    }
    groups = (
        (_in_elementwise_modules(), Form(pads=False)),
        (_ELEMENTWISE + _PRODUCTS, Form(pads=False)),
        (_REDUCING + _CONVOLUTION + _PLACES + _BY_CHANNEL, Form()),
        (_WITH_SHAPES + DRAWING, Form(ints="bound")),
        (_WITH_SIZES, Form(ints="size")),
    )
    batched = {
        overload: Form(ints="bound", serves=_no_dynamic_beyond(trailing))
        for trailing, overloads in _BATCHED.items()
        for overload in overloads
    }
    grouped = {overload: form for overloads, form in groups for overload in overloads}
    merged = {
        overload: Form(function, pads=False) for overload, function in merged_rows.FORMS.items()
    }
    attended = {
        overload: Form(attended_sizes.agreeing(registry.find(overload).function), ints="bound")
        for overload in attended_sizes.OVERLOADS
    }
    return {**grouped, **batched, **_CONDITIONAL, **views, **merged, **attended}


def _form(overload: Overload) -> Form | None:
    form = table().get(overload)
    if form is None:
        form = table().get(registry.functional_form(overload))
    return form


def is_dynamic(args: Any, kwargs: Any) -> bool:
    """Whether a call's arguments hold a Size or an array that has one."""
    return _holds_size((args, kwargs)) or any(map(sizes.dynamic_dims, _arrays((args, kwargs))))


def serves(overload: Overload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether ``call`` takes these arguments."""
    form = _form(overload)
    if form is None:
        return False
    if form.ints is None and _has_size_among_integers(overload, args, kwargs):
        return False
    if form.ints != "size" and _has_traced_constant(overload, args, kwargs):
        return False
    if form.serves is None:
        return True
    positional, named = registry.bind(overload, args, kwargs, registry.find(overload))
    return form.serves(*positional, **named)


def call(overload: Overload, args: tuple[Any, ...], kwargs: dict[str, Any], **extra: Any) -> Any:
    """What an op gives for arrays at their bounds; declare the results' sizes with ``sized``.

    Arguments are the schema's: arrays, whose sizes were declared; Sizes among the integers and
    numbers; ``extra`` is what a rule takes besides (``generator``).
    """
    form = _form(overload)
    if form is None:
        raise NotImplementedError(f"{overload} has no form for dynamic sizes")
    schema = {argument.name: argument for argument in overload._schema.arguments}
    args = tuple(
        _prepared(value, argument, form)
        for value, argument in zip(args, schema.values(), strict=False)
    )
    kwargs = {name: _prepared(value, schema[name], form) for name, value in kwargs.items()}
    rule = registry.find(overload)
    positional, named = registry.bind(overload, args, kwargs, rule)
    function = form.function or rule.function
    return function(*positional, **named, **extra)


def _prepared(value: Any, argument: torch.Argument, form: Form) -> Any:
    is_number = any(kind in str(argument.type) for kind in ("number", "Scalar", "float", "Tensor"))

    def prepare(leaf: Any) -> Any:
        if isinstance(leaf, jax.Array):
            return sizes.filled(leaf, 0) if form.pads else leaf
        if not isinstance(leaf, Size) or form.ints == "size":
            return leaf
        if is_number:
            return registry.weaken(leaf.value.astype(jnp.int64))
        return operator.index(leaf)

    return tree_map(prepare, value)


def _given(overload: Overload, args: Any, kwargs: Any) -> Iterable[tuple[torch.Argument, Any]]:
    for place, argument in enumerate(overload._schema.arguments):
        yield argument, args[place] if place < len(args) else kwargs.get(argument.name)


def _has_size_among_integers(overload: Overload, args: Any, kwargs: Any) -> bool:
    return any(
        "int" in str(argument.type) and _holds_size(value)
        for argument, value in _given(overload, args, kwargs)
    )


def _has_traced_constant(overload: Overload, args: Any, kwargs: Any) -> bool:
    """Whether a number that the rule wants as part of the program is known at run time only."""
    rule = registry.find(overload)
    return rule is not None and any(
        argument.name in rule.static and (_holds_size(value) or _arrays(value))
        for argument, value in _given(overload, args, kwargs)
    )


def _holds_size(value: Any) -> bool:
    return any(isinstance(leaf, Size) for leaf in tree_leaves(value))


def _arrays(tree: Any) -> list[Any]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, jax.Array)]
