"""More calls: norms, places and indices, factories, views, and what is drawn."""

import torch
from bounded_cases import REFERENCES, add, case

aten, prims = torch.ops.aten, torch.ops.prims

# Normalisation

_layer_norm = aten.native_layer_norm.default
add(
    _layer_norm,
    lambda a: (a.tensor(a.s, a.t, 6), [6], a.tensor(6), a.tensor(6), 1e-5),
    lambda a: (a.tensor(4, a.t), [a.t], a.tensor(a.t), None, 1e-5),
)


@case(aten.native_layer_norm_backward.default)
def _layer_norm_backward(a):
    x, weight, bias = a.tensor(a.s, a.t, 6), a.tensor(6), a.tensor(6)
    mean, rstd = (
        a.computed((a.s, a.t, 1), lambda n=n: _layer_norm(x, [6], weight, bias, 1e-5)[n])
        for n in (1, 2)
    )
    return a.tensor(a.s, a.t, 6), x, [6], mean, rstd, weight, bias, [True, True, True]


_rms_norm = aten._fused_rms_norm.default
add(_rms_norm, lambda a: (a.tensor(a.s, a.t, 6), [6], a.tensor(6), 1e-5))


@case(aten._fused_rms_norm_backward.default)
def _rms_norm_backward(a):
    x, weight = a.tensor(a.s, a.t, 6), a.tensor(6)
    rstd = a.computed((a.s, a.t, 1), lambda: _rms_norm(x, [6], weight, 1e-5)[1])
    return a.tensor(a.s, a.t, 6), x, [6], rstd, weight, [True, True]


def _rms_norm_gradients(grad, x, shape, rstd, weight, mask):
    x, weight = x.clone().requires_grad_(), weight.clone().requires_grad_()
    return torch.autograd.grad(_rms_norm(x, shape, weight, 1e-5)[0], (x, weight), grad)


REFERENCES[aten._fused_rms_norm_backward.default] = _rms_norm_gradients

_group_norm = aten.native_group_norm.default


def _grouped(a):
    return a.tensor(a.s, 4, a.t, 3), a.tensor(4), a.tensor(4), a.s, 4, a.t * 3, 2, 1e-5


add(_group_norm, _grouped)


@case(aten.native_group_norm_backward.default)
def _group_norm_backward(a):
    call = _grouped(a)
    mean, rstd = (a.computed((a.s, 2), lambda n=n: _group_norm(*call)[n]) for n in (1, 2))
    mask = [True, True, True]
    return a.tensor(a.s, 4, a.t, 3), call[0], mean, rstd, call[1], *call[3:7], mask


def _channels(a):
    return a.tensor(a.s, 3, a.t, 2), a.tensor(3), a.tensor(3)


for _op in (
    aten._native_batch_norm_legit_functional.default,
    aten.native_batch_norm.default,
):
    add(_op, lambda a: (*_channels(a), a.tensor(3), a.uniform(3), True, 0.1, 1e-5))
add(
    aten._native_batch_norm_legit_no_training.default,
    lambda a: (*_channels(a), a.tensor(3), a.uniform(3), 0.1, 1e-5),
)
add(aten._native_batch_norm_legit.no_stats, lambda a: (*_channels(a), True, 0.1, 1e-5))


@case(aten.native_batch_norm_backward.default)
def _batch_norm_backward(a):
    x, weight, bias = _channels(a)
    saved = (
        a.computed((3,), lambda n=n: aten.native_batch_norm(
            x, weight, bias, None, None, True, 0.1, 1e-5)[n])
        for n in (1, 2)
    )  # fmt: skip
    mask = [True, True, True]
    return a.tensor(a.s, 3, a.t, 2), x, weight, None, None, *saved, True, 1e-5, mask


# Places and indices

add(
    aten.cat.default,
    lambda a: ([a.tensor(a.s, 3), a.tensor(a.t, 3), a.tensor(2, 3)],),
    lambda a: ([a.tensor(a.s, a.t), a.tensor(a.s, a.t)], -1),
    lambda a: ([a.tensor(a.s, 3), a.tensor(a.s, 2)], 1),
)
add(aten.stack.default, lambda a: ([a.tensor(a.s, a.t), a.tensor(a.s, a.t)], 1))
add(aten.flip.default, lambda a: (a.tensor(a.s, a.t, 3), [0, 1]))
add(
    aten.roll.default,
    lambda a: (a.tensor(a.s, a.t), [2, -1], [0, 1]),
    lambda a: (a.tensor(a.s, a.t), [3]),
)
add(
    aten.gather.default,
    lambda a: (a.tensor(a.s, a.t), 0, a.integers((a.t, a.t), a.s)),
    lambda a: (a.tensor(a.s, 6), 1, a.integers((a.s, a.t), 6)),
)
for _op in (aten.scatter.src, aten.scatter_add.default):
    add(
        _op,
        lambda a: (a.tensor(a.s), 0, a.distinct(a.s), a.tensor(a.s)),
        lambda a: (a.tensor(20, a.t), 0, _column(a), a.tensor(a.s, a.t)),
    )


def _column(a):
    return a.computed(
        (a.s, a.t), lambda: torch.arange(a.s)[:, None].expand(a.s, a.t).flip(0) + 0 * a.t
    )


add(aten.scatter.value, lambda a: (a.tensor(a.s, 4), 1, a.integers((a.s, a.t), 4), 2.0))
add(
    aten.scatter_reduce.two,
    lambda a: (a.tensor(4), 0, a.integers((a.s,), 4), a.tensor(a.s), "amax"),
    lambda a: (
        a.tensor(4),
        0,
        a.integers((a.s,), 4),
        a.tensor(a.s),
        "mean",
        {"include_self": False},
    ),
)
add(
    aten.index_select.default,
    lambda a: (a.tensor(a.s, 3), 0, a.integers((a.t,), a.s)),
    lambda a: (a.tensor(a.s, a.t), 1, a.integers((4,), a.t)),
)
add(aten.index_add.default, lambda a: (a.tensor(5, 3), 0, a.integers((a.s,), 5), a.tensor(a.s, 3)))
add(
    aten.index_copy.default,
    lambda a: (a.tensor(a.s, 3), 0, a.distinct(a.s), a.tensor(a.s, 3)),
)
add(aten.index_fill.int_Scalar, lambda a: (a.tensor(a.s, a.t), 0, a.integers((a.t,), a.s), 2.0))
add(
    aten.index_reduce.default,
    lambda a: (a.tensor(5, 3), 0, a.integers((a.s,), 5), a.tensor(a.s, 3), "prod"),
)
add(aten.take.default, lambda a: (a.tensor(a.s, a.t), a.integers((a.t,), a.s * a.t, -1)))
add(
    aten.put.default,
    lambda a: (a.tensor(a.s, a.t), a.integers((a.t,), a.s), a.tensor(a.t), True),
)
add(
    aten.embedding.default,
    lambda a: (a.tensor(5, 4), a.integers((a.s, a.t), 5)),
    lambda a: (a.tensor(a.s, 4), a.integers((a.t,), a.s)),
)
add(
    aten.embedding_dense_backward.default,
    lambda a: (a.tensor(a.s, a.t, 4), a.integers((a.s, a.t), 5), 5, -1, False),
    lambda a: (a.tensor(a.s, a.t, 4), a.integers((a.s, a.t), 5), 5, 2, True),
)
for _op in (aten.index.Tensor, aten._unsafe_index.Tensor):
    add(
        _op,
        lambda a: (a.tensor(a.s, a.t), [a.integers((a.t,), a.s, -1)]),
        lambda a: (a.tensor(4, a.s, a.t), [None, a.integers((a.t, 1), 1), a.integers((a.t,), 1)]),
    )
for _op in (aten.index_put.default, aten._unsafe_index_put.default):
    add(
        _op,
        lambda a: (a.tensor(a.s, 3), [a.distinct(a.s)], a.tensor(a.s, 3)),
        lambda a: (a.tensor(6, 3), [a.integers((a.s,), 6, -6)], a.tensor(a.s, 3), True),
        lambda a: (a.tensor(6, a.t), [a.integers((a.s,), 6)], a.tensor(1), True),
        lambda a: (a.tensor(a.s, 3), [a.integers((4,), 0, -1)], a.tensor(3)),
    )
add(
    aten.constant_pad_nd.default,
    lambda a: (a.tensor(a.s, a.t), [1, 2, 0, 3], 0.5),
    lambda a: (a.tensor(a.s, 6), [-2, -1, 2, 0], 0.5),
    lambda a: (a.tensor(a.s, 6), [0, a.t], 0.5),
)
for _op in (aten.tril.default, aten.triu.default):
    add(_op, lambda a: (a.tensor(a.s, a.t), 1), lambda a: (a.tensor(a.s, a.t), a.t))
add(
    aten.repeat.default,
    lambda a: (a.tensor(a.s, 3), [2, 2]),
    lambda a: (a.tensor(3), [a.s, 1]),
    lambda a: (a.tensor(a.s, a.t), [2, 3, 2]),
)

# Factories

add(aten.full.default, lambda a: ([a.s, 3], 2.5), lambda a: ([a.s], a.t))
for _op in (aten.zeros.default, aten.ones.default):
    add(_op, lambda a: ([a.s, 2, a.t],))
add(aten.scalar_tensor.default, lambda a: (a.s, {"dtype": torch.float32}))
for _op in (aten.new_zeros.default, aten.new_ones.default):
    add(_op, lambda a: (a.tensor(a.s), [a.t, 2]))
add(aten.new_full.default, lambda a: (a.tensor(a.s), [a.t, 2], 3.0))
for _op in (aten.zeros_like.default, aten.ones_like.default):
    add(_op, lambda a: (a.tensor(a.s, a.t),))
add(aten.full_like.default, lambda a: (a.tensor(a.s, a.t), a.s))
add(aten.eye.default, lambda a: (a.s,))
add(aten.eye.m, lambda a: (a.s, a.t))
add(aten.arange.default, lambda a: (a.s,), lambda a: (a.s, {"dtype": torch.float32}))
add(aten.arange.start, lambda a: (a.t, a.t + a.s), lambda a: (1, a.s))
add(aten.arange.start_step, lambda a: (0, a.s, 2), lambda a: (a.s - 1, -1, -1))

# Views

for _op in (aten.view.default, aten._unsafe_view.default, aten.reshape.default,
            aten._reshape_copy.default, aten.view_copy.default):  # fmt: skip
    add(
        _op,
        lambda a: (a.tensor(4, a.s, 6), [4 * a.s, 6]),
        lambda a: (a.tensor(4 * a.s, 6), [4, a.s, 6]),
        lambda a: (a.tensor(a.s, a.t, 6), [-1, 6]),
        lambda a: (a.tensor(a.s * a.t, 6), [a.s, a.t, 2, 3]),
        lambda a: (a.tensor(a.s, a.t), [a.t, a.s]),
        lambda a: (a.tensor(a.s, a.t), [a.s * a.t]),
        lambda a: (a.tensor(2, 4, a.s, 3), [8, a.s, 3]),
        lambda a: (a.tensor(a.s, 4, 6), [-1, 24]),
        lambda a: (a.tensor(a.s, 6, 1, a.t), [a.s, 2, 3, -1]),
    )
for _op in (aten.expand.default, aten.expand_copy.default):
    add(
        _op,
        lambda a: (a.tensor(1, 3), [a.s, 3]),
        lambda a: (a.tensor(a.s, 1, a.t), [2, -1, a.t, -1]),
    )
for _op in (aten.permute.default, aten.permute_copy.default):
    add(_op, lambda a: (a.tensor(a.s, 3, a.t), [2, 0, -2]))
for _op in (aten.transpose.int, aten.transpose_copy.int):
    add(_op, lambda a: (a.tensor(a.s, 3, a.t), 0, -1))
for _op in (aten.t.default, aten.t_copy.default):
    add(_op, lambda a: (a.tensor(a.s, a.t),))
for _op in (aten.unsqueeze.default, aten.unsqueeze_copy.default):
    add(_op, lambda a: (a.tensor(a.s, a.t), -1))
for _op in (aten.squeeze.dim, aten.squeeze_copy.dim):
    add(_op, lambda a: (a.tensor(a.s, 1, a.t), 1))
for _op in (aten.squeeze.dims, aten.squeeze_copy.dims):
    add(_op, lambda a: (a.tensor(1, a.s + 1, 1), [0, -1]))
for _op in (aten.squeeze.default, aten.squeeze_copy.default):
    add(_op, lambda a: (a.tensor(1, a.s + 1, 1),))
for _op in (aten.alias.default, aten.alias_copy.default, aten.clone.default,
            aten.detach.default, aten.detach_copy.default, aten.lift_fresh_copy.default,
):  # fmt: skip
    add(_op, lambda a: (a.tensor(a.s, a.t),))
for _op in (aten.select.int, aten.select_copy.int):
    add(
        _op,
        lambda a: (a.tensor(a.s, a.t), 0, -1),
        lambda a: (a.tensor(a.s, a.t), 1, 0),
        lambda a: (a.tensor(20, a.t), 0, a.s),
    )
for _op in (aten.slice.Tensor, aten.slice_copy.Tensor):
    add(
        _op,
        lambda a: (a.tensor(a.s, a.t), 0, 0, 4),
        lambda a: (a.tensor(a.s, a.t), 0, 1, 2**63 - 1),
        lambda a: (a.tensor(a.s, a.t), 0, -2, 2**63 - 1),
        lambda a: (a.tensor(a.s, a.t), 1, 0, -1),
        lambda a: (a.tensor(a.s, a.t), 0, 1, 2**63 - 1, 3),
        lambda a: (a.tensor(24, 3), 0, a.t, a.t + a.s),
        lambda a: (a.tensor(a.s, 3), 0, None, a.t),
        lambda a: (a.tensor(24, a.t), 0, 2, a.s, 2),
    )
for _op in (aten.narrow.default, aten.narrow_copy.default):
    add(
        _op,
        lambda a: (a.tensor(24, a.t), 0, a.t, a.s),
        lambda a: (a.tensor(24, 3), 0, 2, a.s),
    )
for _op in (aten.split_with_sizes.default, aten.split_with_sizes_copy.default,
            aten.unsafe_split_with_sizes.default):  # fmt: skip
    add(
        _op,
        lambda a: (a.tensor(a.s + a.t + 2, 3), [a.s, 2, a.t]),
        lambda a: (a.tensor(a.s, 6), [2, 4], 1),
    )
for _op in (aten.split.Tensor, aten.split_copy.Tensor, aten.unsafe_split.Tensor):
    add(
        _op,
        lambda a: (a.tensor(2 * a.s, 3), a.s),
        lambda a: (a.tensor(a.s, 7), 3, 1),
    )
for _op in (aten.unbind.int, aten.unbind_copy.int):
    add(_op, lambda a: (a.tensor(a.s, 3), 1))
add(
    aten.slice_scatter.default,
    lambda a: (a.tensor(24, 3), a.tensor(a.s, 3), 0, a.t, a.t + a.s),
    lambda a: (a.tensor(a.s + 2, 3), a.tensor(a.s, 3), 0, 2, 2**63 - 1),
)
add(
    aten.slice_backward.default,
    lambda a: (a.tensor(a.s, 3), [24, 3], 0, a.t, a.t + a.s, 1),
    lambda a: (a.tensor(a.s, a.t), [2 * a.s, a.t], 0, 1, 2**63 - 1, 2),
    lambda a: (a.tensor(a.s, 1), [a.s, a.t], 1, -1, 2**63 - 1, 1),
)
add(aten.select_scatter.default, lambda a: (a.tensor(a.s, a.t), a.tensor(a.t), 0, -1))
add(aten.select_backward.default, lambda a: (a.tensor(a.t), [a.s, a.t], 0, -1))

# Element by element, outside of the modules whose ops all are

add(aten.masked_fill.Scalar, lambda a: (a.tensor(a.s, a.t), a.mask(a.t), 2.0))
add(aten.masked_fill.Tensor, lambda a: (a.tensor(a.s, a.t), a.mask(a.s, a.t), a.tensor()))
add(
    aten.native_dropout_backward.default,
    lambda a: (a.tensor(a.s, a.t), a.mask(a.s, a.t), 2.0),
)

_forward = aten.log_sigmoid_forward.default


@case(aten.log_sigmoid_backward.default)
def _log_sigmoid_backward(a):
    x = a.tensor(a.s, a.t)
    return a.tensor(a.s, a.t), x, a.computed((a.s, a.t), lambda: _forward(x)[1])


add(aten.round.decimals, lambda a: (a.tensor(a.s, a.t), {"decimals": 1}))
add(aten.clamp.default, lambda a: (a.tensor(a.s, a.t), -0.5, 0.5))
add(aten.clamp.Tensor, lambda a: (a.tensor(a.s, a.t), None, a.tensor(a.t)))
add(aten.fill.Tensor, lambda a: (a.tensor(a.s, a.t), a.tensor()))

add(aten.bucketize.Tensor, lambda a: (a.tensor(a.s, a.t), a.computed((3,), _boundaries)))


def _boundaries():
    return torch.tensor([-0.5, 0.0, 0.5])


# Images and signals whose own dims are static

for _pad, _backward, _rank in (
    (aten.reflection_pad1d, aten.reflection_pad1d_backward, 1),
    (aten.replication_pad1d, aten.replication_pad1d_backward, 1),
    (aten.reflection_pad2d, aten.reflection_pad2d_backward, 2),
    (aten.replication_pad2d, aten.replication_pad2d_backward, 2),
):
    _shape, _wider, _amounts = [4, 5][:_rank], [7, 8][:_rank], [1, 2, 1, 2][: 2 * _rank]
    add(
        _pad.default,
        lambda a, shape=_shape, amounts=_amounts: (a.tensor(a.s, a.t, *shape), amounts),
    )
    add(
        _backward.default,
        lambda a, shape=_shape, wider=_wider, amounts=_amounts: (
            a.tensor(a.s, a.t, *wider),
            a.tensor(a.s, a.t, *shape),
            amounts,
        ),
    )
add(aten.upsample_nearest1d.default, lambda a: (a.tensor(a.s, a.t, 5), [9]))
add(aten.upsample_linear1d.default, lambda a: (a.tensor(a.s, a.t, 5), [9], False))
add(aten.upsample_nearest2d.default, lambda a: (a.tensor(a.s, a.t, 5, 4), [9, 8]))
for _op in (aten.upsample_bilinear2d.default, aten.upsample_bicubic2d.default):
    add(_op, lambda a: (a.tensor(a.s, a.t, 5, 4), [9, 8], False))
add(
    aten.upsample_nearest2d_backward.default,
    lambda a: (a.tensor(a.s, a.t, 10, 8), [10, 8], [a.s, a.t, 5, 4]),
)
add(
    aten.upsample_bilinear2d_backward.default,
    lambda a: (a.tensor(a.s, a.t, 10, 8), [10, 8], [a.s, a.t, 5, 4], True),
)
add(aten.pixel_shuffle.default, lambda a: (a.tensor(a.s, a.t, 4, 3, 3), 2))
add(aten.pixel_unshuffle.default, lambda a: (a.tensor(a.s, a.t, 2, 4, 4), 2))
add(aten.channel_shuffle.default, lambda a: (a.tensor(a.s, 4, 3, 3), 2))
add(aten.adaptive_max_pool2d.default, lambda a: (a.tensor(a.s, a.t, 5, 6), [3, 2]))

# Norms, halves, diagonals and windows

add(
    aten.linalg_vector_norm.default,
    lambda a: (a.tensor(a.s, a.t),),
    lambda a: (a.tensor(a.s, a.t), float("inf"), [0]),
    lambda a: (a.tensor(a.s, a.t), 1, [1], True),
)
add(aten.glu.default, lambda a: (a.tensor(a.s, 6, a.t), 1))
add(aten.glu_backward.default, lambda a: (a.tensor(a.s, 3), a.tensor(a.s, 6), -1))
add(aten.diag_embed.default, lambda a: (a.tensor(a.s, a.t), -1))
add(
    aten.diagonal_copy.default,
    lambda a: (a.tensor(a.s, a.t), 0),
    lambda a: (a.tensor(3, a.s, a.s), 0, 1, 2),
)
add(aten.diagonal_backward.default, lambda a: (a.tensor(a.s), [a.s, a.s], 0, 0, 1))
add(aten.unfold_copy.default, lambda a: (a.tensor(a.s + 3, a.t), 0, 3, 2))
add(
    aten.unfold_backward.default,
    lambda a: (a.tensor(a.s, a.t, 3), [a.s + 2, a.t], 0, 3, 1),
)
add(aten.view_as_complex_copy.default, lambda a: (a.tensor(a.s, a.t, 2),))
add(
    aten.view_as_real_copy.default,
    lambda a: (a.computed((a.s, a.t), lambda: torch.randn(a.s, a.t, dtype=torch.complex64)),),
)
add(
    aten.scatter.reduce,
    lambda a: (a.tensor(4), 0, a.integers((a.s,), 4), a.tensor(a.s), {"reduce": "multiply"}),
)
add(
    aten.index_fill.int_Tensor,
    lambda a: (a.tensor(a.s, a.t), 1, a.integers((a.t,), a.t), a.tensor()),
)

add(
    aten._to_copy.default,
    lambda a: (a.tensor(a.s, a.t), {"dtype": torch.int32}),
    lambda a: (a.tensor(a.s, 3),),
)
add(prims.convert_element_type.default, lambda a: (a.tensor(a.s, a.t), torch.int32))
add(prims.device_put.default, lambda a: (a.tensor(a.s, a.t), torch.device("cpu")))

# Draws that leave nothing to chance

add(aten.native_dropout.default, lambda a: (a.tensor(a.s, a.t), 0.0, True))
add(aten.bernoulli.p, lambda a: (a.tensor(a.s, a.t), 1.0))
add(aten.uniform.default, lambda a: (a.tensor(a.s, a.t), 2.0, 2.0))
add(aten.normal_functional.default, lambda a: (a.tensor(a.s, a.t), 2.0, 0.0))
REFERENCES[aten.put.default] = lambda self, *rest: self.clone().put_(*rest)
