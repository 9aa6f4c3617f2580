"""Calls of every op that has a bounded form, each a function of the sizes (see beside.py)."""

import torch

aten = torch.ops.aten

CASES = {}
REFERENCES = {}


def case(*overloads):
    def register(function):
        for overload in overloads:
            CASES.setdefault(overload, []).append(function)
        return function

    return register


def add(overload, *functions):
    for function in functions:
        case(overload)(function)


# Reductions

add(aten.sum.default, lambda a: (a.tensor(a.s, 4, a.t),))
for _op in (aten.sum.dim_IntList, aten.mean.dim):
    add(
        _op,
        lambda a: (a.tensor(a.s, a.t), [0]),
        lambda a: (a.tensor(4, a.s, a.t), [-1, 0], True),
        lambda a: (a.tensor(a.s, 3), [1]),
    )
case(aten.sum.dim_IntList)(lambda a: (a.integers((a.s, a.t), 9, -9), [0]))
for _op in (
    aten.nansum.default,
    aten.mean.default,
    aten.prod.default,
    aten.any.default,
    aten.all.default,
    aten.max.default,
    aten.min.default,
    aten.argmax.default,
    aten.argmin.default,
    aten.median.default,
    aten.nanmedian.default,
    aten.count_nonzero.default,
    aten.var.correction,
    aten.std_mean.correction,
):
    add(_op, lambda a: (a.tensor(a.s, a.t),), lambda a: (a.tensor(3, a.s),))
for _op in (aten.all.default, aten.any.default, aten.count_nonzero.default):
    add(_op, lambda a: (a.mask(a.s, a.t),))
for _op in (aten.argmax.default, aten.argmin.default, aten.max.dim, aten.min.dim):
    add(
        _op,
        lambda a: (a.tensor(a.s, a.t), 0),
        lambda a: (a.tensor(a.s, a.t), 1, True),
        lambda a: (a.uniform(2, a.t), 1),
        lambda a: (a.integers((a.s, a.t), -1, -9), 0),
    )
for _op in (
    aten.prod.dim_int,
    aten.any.dim,
    aten.all.dim,
    aten.median.dim,
    aten.nanmedian.dim,
):
    add(_op, lambda a: (a.tensor(a.s, a.t), 0), lambda a: (a.integers((a.s, a.t), 9), 1, True))
for _op in (aten.any.dims, aten.all.dims, aten.amax.default, aten.amin.default):
    add(_op, lambda a: (a.tensor(a.s, 3, a.t), [0, 2]), lambda a: (a.tensor(a.s, a.t), [1]))
for _op in (aten.amax.default, aten.amin.default):
    add(_op, lambda a: (a.integers((a.s, a.t), 9, 5), [0]), lambda a: (a.mask(a.s, a.t), [0]))
add(aten.count_nonzero.dim_IntList, lambda a: (a.integers((a.s, a.t), 2), [0]))
add(aten.aminmax.default, lambda a: (a.uniform(a.s, a.t), {"dim": 0}))
add(
    aten.logsumexp.default,
    lambda a: (a.tensor(a.s, a.t), [0]),
    lambda a: (a.tensor(a.s, a.t), [0, 1], True),
)
for _op in (
    aten.var.correction,
    aten.std.correction,
    aten.var_mean.correction,
    aten.std_mean.correction,
):
    add(
        _op,
        lambda a: (a.tensor(a.s, a.t), [0]),
        lambda a: (a.tensor(a.s, 4, a.t), [0, 2], {"correction": 0, "keepdim": True}),
    )
add(aten.kthvalue.default, lambda a: (a.tensor(a.s, a.t), 1, 0))


# Scans and sorts

for _op in (
    aten.cumsum.default,
    aten.cumprod.default,
    aten.cummax.default,
    aten.cummin.default,
    aten.logcumsumexp.default,
):
    add(_op, lambda a: (a.tensor(a.s, a.t), 0), lambda a: (a.tensor(a.s, a.t), -1))
add(
    aten.sort.default,
    lambda a: (a.tensor(a.s, a.t), 0),
    lambda a: (a.tensor(a.s, a.t), 1, True),
    lambda a: (a.distinct(a.s), 0, True),
    lambda a: (a.distinct(a.s),),
)
add(
    aten.sort.stable,
    lambda a: (a.integers((a.s, a.t), 3), {"stable": True, "dim": 0}),
    lambda a: (a.integers((a.s, a.t), 3), {"stable": True, "dim": 0, "descending": True}),
    lambda a: (a.mask(a.s), {"stable": True, "descending": True}),
)
add(
    aten.topk.default,
    lambda a: (a.tensor(a.s, a.t), 1),
    lambda a: (a.tensor(a.s, 4), 1, 0, False),
    lambda a: (a.tensor(a.s, 6), 3, 1),
    lambda a: (a.distinct(a.s), 1, 0, False),
    lambda a: (a.distinct(a.s), 1, 0),
)


# Softmax and losses

for _op in (aten._softmax.default, aten._log_softmax.default):
    add(
        _op,
        lambda a: (a.tensor(a.s, a.t), 0, False),
        lambda a: (a.tensor(a.s, 3, a.t), -1, False),
    )
add(aten._safe_softmax.default, lambda a: (a.tensor(a.s, a.t), 0))
for _op in (aten._softmax_backward_data.default, aten._log_softmax_backward_data.default):
    add(
        _op,
        lambda a: (a.tensor(a.s, a.t), a.uniform(a.s, a.t), 0, torch.float32),
        lambda a: (a.tensor(a.s, a.t), a.uniform(a.s, a.t), 1, torch.float32),
    )
add(
    aten._masked_softmax.default,
    lambda a: (a.tensor(2, 3, a.t, a.t), a.computed((a.t, a.t), lambda: _no_row_full(a.t)), 3, 0),
)
add(
    aten._masked_softmax_backward.default,
    lambda a: (a.tensor(a.s, a.t), a.uniform(a.s, a.t), a.mask(a.s, a.t), 1),
)


def _no_row_full(size):
    return torch.ones(size, size, dtype=torch.bool).triu(1)


for _op in (
    aten.mse_loss.default,
    aten.smooth_l1_loss.default,
    aten.huber_loss.default,
    aten.soft_margin_loss.default,
):
    add(
        _op,
        lambda a: (a.tensor(a.s, a.t), a.tensor(a.s, a.t)),
        lambda a: (a.tensor(a.s, 3), a.tensor(a.s, 3), 2),
        lambda a: (a.tensor(a.s, 3), a.tensor(a.s, 3), 0),
    )
add(aten.mse_loss.default, lambda a: (a.tensor(4, a.s), a.tensor(a.s)))
for _op, _numbers in (
    (aten.mse_loss_backward.default, ()),
    (aten.smooth_l1_loss_backward.default, (0.7,)),
    (aten.huber_loss_backward.default, (0.7,)),
    (aten.soft_margin_loss_backward.default, ()),
):
    add(
        _op,
        lambda a, numbers=_numbers: (
            a.tensor(),
            a.tensor(a.s, a.t),
            a.tensor(a.s, a.t),
            1,
            *numbers,
        ),
        lambda a, numbers=_numbers: (
            a.tensor(a.s, a.t),
            a.tensor(a.s, a.t),
            a.tensor(a.s, a.t),
            0,
            *numbers,
        ),
    )
add(
    aten.binary_cross_entropy.default,
    lambda a: (a.uniform(a.s, a.t), a.uniform(a.s, a.t)),
    lambda a: (a.uniform(a.s, a.t), a.uniform(a.s, a.t), a.uniform(a.s, a.t), 2),
)
add(
    aten.binary_cross_entropy_backward.default,
    lambda a: (a.tensor(), a.uniform(a.s, a.t), a.uniform(a.s, a.t), None, 1),
)
add(
    aten.binary_cross_entropy_with_logits.default,
    lambda a: (a.tensor(a.s, a.t), a.uniform(a.s, a.t)),
    lambda a: (a.tensor(a.s, 3), a.uniform(a.s, 3), None, a.uniform(3)),
)
add(
    aten.nll_loss_forward.default,
    lambda a: (a.tensor(a.s, 5), a.integers((a.s,), 5), None, 1, -100),
    lambda a: (a.tensor(a.s, 5), a.integers((a.s,), 5), a.uniform(5), 1, 2),
    lambda a: (a.tensor(a.s, 5), a.integers((a.s,), 5), None, 2, 0),
    lambda a: (a.tensor(a.s, 5), a.integers((a.s,), 5), None, 0, 0),
)
add(
    aten.nll_loss_backward.default,
    lambda a: (
        a.tensor(),
        a.tensor(a.s, 5),
        a.integers((a.s,), 5),
        a.uniform(5),
        1,
        -100,
        a.uniform(),
    ),
)
add(
    aten.nll_loss2d_forward.default,
    lambda a: (a.tensor(a.s, 5, a.t, 2), a.integers((a.s, a.t, 2), 5), None, 1, -100),
)
add(
    aten.nll_loss2d_backward.default,
    lambda a: (
        a.tensor(),
        a.tensor(a.s, 5, a.t, 2),
        a.integers((a.s, a.t, 2), 5),
        None,
        1,
        -100,
        a.uniform(),
    ),
)


# Products

for _op in (aten.mm.default,):
    add(
        _op,
        lambda a: (a.tensor(a.s, 4), a.tensor(4, 3)),
        lambda a: (a.tensor(4, a.s), a.tensor(a.s, a.t)),
    )
add(
    aten.bmm.default,
    lambda a: (a.tensor(a.s, 4, a.t), a.tensor(a.s, a.t, 3)),
    lambda a: (a.tensor(2, a.s, a.t), a.tensor(2, a.t, a.s)),
)
for _op in (aten.addmm.default, aten._addmm_activation.default):
    add(
        _op,
        lambda a: (a.tensor(3), a.tensor(a.s, a.t), a.tensor(a.t, 3)),
        lambda a: (a.tensor(4, a.t), a.tensor(4, a.s), a.tensor(a.s, a.t)),
    )
add(
    aten.baddbmm.default,
    lambda a: (a.tensor(a.s, 2, 3), a.tensor(a.s, 2, a.t), a.tensor(a.s, a.t, 3), {"beta": 0.5}),
)
add(aten.addbmm.default, lambda a: (a.tensor(2, 3), a.tensor(a.s, 2, a.t), a.tensor(a.s, a.t, 3)))
add(aten.mv.default, lambda a: (a.tensor(a.s, a.t), a.tensor(a.t)))
add(aten.addmv.default, lambda a: (a.tensor(a.s), a.tensor(a.s, a.t), a.tensor(a.t)))
add(aten.addr.default, lambda a: (a.tensor(a.s, a.t), a.tensor(a.s), a.tensor(a.t)))
add(aten.dot.default, lambda a: (a.tensor(a.s), a.tensor(a.s)))


# Attention

_flash = aten._scaled_dot_product_flash_attention_for_cpu.default
_flash_backward = aten._scaled_dot_product_flash_attention_for_cpu_backward.default
_fused = aten._scaled_dot_product_fused_attention_overrideable.default
_fused_backward = aten._scaled_dot_product_fused_attention_overrideable_backward.default


def _qkv(a, rows, columns):
    return a.tensor(2, 3, rows, 4), a.tensor(2, 3, columns, 4), a.tensor(2, 3, columns, 4)


add(
    _flash,
    lambda a: _qkv(a, a.s, a.t),
    lambda a: (*_qkv(a, a.t, a.t), 0.0, True),
    lambda a: (*_qkv(a, a.s, a.t), 0.0, False, {"attn_mask": a.tensor(2, 1, a.s, a.t)}),
    lambda a: (a.tensor(a.s, 2, a.t, 4), a.tensor(a.s, 2, a.t, 4), a.tensor(a.s, 2, a.t, 4)),
    lambda a: (a.tensor(2, 3, 5, a.s), a.tensor(2, 3, a.t, a.s), a.tensor(2, 3, a.t, a.s)),
)
add(
    _fused,
    lambda a: (*_qkv(a, a.s, a.t), a.tensor(2, 1, a.s, a.t)),
    lambda a: (*_qkv(a, a.t, a.t), None, 0.0, True),
)
REFERENCES[_fused] = lambda q, k, v, bias=None, dropout=0.0, is_causal=False: _flash(
    q, k, v, dropout, is_causal, attn_mask=bias
)


def _flash_backward_call(a, rows, columns, is_causal=False):
    q, k, v = _qkv(a, rows, columns)
    out = a.computed((2, 3, rows, 4), lambda: _flash(q, k, v, 0.0, is_causal)[0])
    logsumexp = a.computed((2, 3, rows), lambda: _flash(q, k, v, 0.0, is_causal)[1])
    return a.tensor(2, 3, rows, 4), q, k, v, out, logsumexp, 0.0, is_causal


add(
    _flash_backward,
    lambda a: _flash_backward_call(a, a.s, a.t),
    lambda a: _flash_backward_call(a, a.t, a.t, True),
)


def _fused_backward_call(a):
    grad, q, k, v, out, logsumexp, _, _ = _flash_backward_call(a, a.s, a.t)
    word = a.computed((), lambda: torch.zeros((), dtype=torch.int64))
    none = a.computed((0,), lambda: torch.zeros(0, dtype=torch.int64))
    mask = [True, True, True, False]
    head = (grad, q, k, v, None, mask, out, logsumexp, none, none)
    return (*head, a.s, a.t, 0.0, False, word, word)


add(_fused_backward, _fused_backward_call)
REFERENCES[_fused_backward] = lambda grad, q, k, v, bias, mask, out, logsumexp, *rest: (
    _flash_backward(grad, q, k, v, out, logsumexp, 0.0, False)
)


# Convolution and pooling

_CONVOLUTION = ([1, 1], [1, 1], [1, 1], False, [0, 0], 1)
_STRIDED = ([2, 1], [1, 0], [1, 2], False, [0, 0], 2)
_TRANSPOSED = ([2, 2], [1, 1], [1, 1], True, [1, 1], 1)
add(
    aten.convolution.default,
    lambda a: (a.tensor(a.s, 4, 6, 7), a.tensor(2, 4, 3, 3), a.tensor(2), *_CONVOLUTION),
    lambda a: (a.tensor(a.s, 4, 6, 7), a.tensor(2, 2, 3, 3), None, *_STRIDED),
    lambda a: (a.tensor(2, 4, a.s, a.t), a.tensor(2, 4, 3, 3), a.tensor(2), *_CONVOLUTION),
    lambda a: (a.tensor(a.s, 4, 6, a.t), a.tensor(4, 2, 3, 3), a.tensor(2), *_TRANSPOSED),
)
add(
    aten.convolution_backward.default,
    lambda a: (
        a.double(a.s, 2, 6, 7),
        a.double(a.s, 4, 6, 7),
        a.double(2, 4, 3, 3),
        [2],
        *_CONVOLUTION,
        [True, True, True],
    ),
    lambda a: (
        a.double(3, 2, a.s, a.t),
        a.double(3, 4, a.s, a.t),
        a.double(2, 4, 3, 3),
        [2],
        *_CONVOLUTION,
        [True, True, True],
    ),
)
add(
    aten.avg_pool2d.default,
    lambda a: (a.tensor(a.s, 2, 6, 7), [3, 3], [2, 2], [1, 1], True),
    lambda a: (a.tensor(2, 2, a.s, 6), [1, 2]),
)
add(
    aten.avg_pool2d_backward.default,
    lambda a: (
        a.tensor(a.s, 2, 3, 3),
        a.tensor(a.s, 2, 6, 6),
        [2, 2],
        [2, 2],
        [0, 0],
        False,
        True,
        None,
    ),
)
add(
    aten.max_pool2d_with_indices.default,
    lambda a: (a.tensor(a.s, a.t, 6, 7), [3, 3], [2, 2], [1, 1]),
)


def _max_pool_backward(a):
    x = a.tensor(a.s, 2, 6, 6)
    places = a.computed((a.s, 2, 3, 3), lambda: aten.max_pool2d_with_indices(x, [2, 2])[1])
    return a.tensor(a.s, 2, 3, 3), x, [2, 2], [2, 2], [0, 0], [1, 1], False, places


add(aten.max_pool2d_with_indices_backward.default, _max_pool_backward)
add(aten._adaptive_avg_pool2d.default, lambda a: (a.tensor(a.s, a.t, 6, 7), [3, 2]))
add(
    aten._adaptive_avg_pool2d_backward.default,
    lambda a: (a.tensor(a.s, a.t, 1, 1), a.tensor(a.s, a.t, 6, 7)),
)
