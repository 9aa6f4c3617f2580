"""Losses that have kernels of their own, and their gradients."""

import jax.numpy as jnp
import torch
from jax import lax

from torch_tpu.lowering import sizes
from torch_tpu.lowering.checks import check
from torch_tpu.lowering.platforms import by_platform
from torch_tpu.lowering.promotion import cast, promote
from torch_tpu.lowering.registry import lowering

aten = torch.ops.aten

_MEAN, _SUM = 1, 2  # at::Reduction; 0 keeps every element's loss


def _reduced(loss, reduction, *operands):
    """The loss of each element, made from the operands element by element, reduced."""
    if reduction not in (_MEAN, _SUM):
        return loss
    loss = sizes.like(loss, *operands)
    total = jnp.sum(sizes.filled(loss, 0))
    return total / sizes.count(loss) if reduction == _MEAN else total


def _spread(grad_output, like, reduction):
    """The gradient that reaches each element of ``like`` through the reduction."""
    return grad_output / sizes.count(like) if reduction == _MEAN else grad_output


@lowering(aten.mse_loss.default)
def mse_loss(self, target, reduction=_MEAN):
    self, target = promote(self, target)
    return _reduced(jnp.square(self - target), reduction, self, target)


@lowering(aten.mse_loss_backward.default)
def mse_loss_backward(grad_output, self, target, reduction):
    grad_output, self, target = promote(grad_output, self, target)
    return 2 * _spread(grad_output, self, reduction) * (self - target)


@lowering(aten.smooth_l1_loss.default)
def smooth_l1_loss(self, target, reduction=_MEAN, beta=1.0):
    self, target, beta = promote(self, target, beta)
    distance = jnp.abs(self - target)
    near = 0.5 * jnp.square(distance) / beta
    loss = jnp.where(distance < beta, near, distance - 0.5 * beta)
    return _reduced(loss, reduction, self, target)


@lowering(aten.smooth_l1_loss_backward.default)
def smooth_l1_loss_backward(grad_output, self, target, reduction, beta):
    grad_output, self, target, beta = promote(grad_output, self, target, beta)
    difference = self - target
    slope = jnp.where(jnp.abs(difference) < beta, difference / beta, jnp.sign(difference))
    return _spread(grad_output, self, reduction) * slope


@lowering(aten.huber_loss.default)
def huber_loss(self, target, reduction=_MEAN, delta=1.0):
    self, target, delta = promote(self, target, delta)
    distance = jnp.abs(self - target)
    far = delta * (distance - 0.5 * delta)
    loss = jnp.where(distance < delta, 0.5 * jnp.square(distance), far)
    return _reduced(loss, reduction, self, target)


@lowering(aten.huber_loss_backward.default)
def huber_loss_backward(grad_output, self, target, reduction, delta):
    grad_output, self, target, delta = promote(grad_output, self, target, delta)
    slope = jnp.clip(self - target, -delta, delta)
    return _spread(grad_output, self, reduction) * slope


@lowering(aten.soft_margin_loss.default)
def soft_margin_loss(self, target, reduction=_MEAN):
    self, target = promote(self, target)
    return _reduced(jnp.log1p(jnp.exp(-target * self)), reduction, self, target)


@lowering(aten.soft_margin_loss_backward.default)
def soft_margin_loss_backward(grad_output, self, target, reduction):
    grad_output, self, target = promote(grad_output, self, target)
    odds = jnp.exp(-target * self)
    return _spread(grad_output, self, reduction) * -target * odds / (odds + 1)


@lowering(aten.binary_cross_entropy.default)
def binary_cross_entropy(self, target, weight=None, reduction=_MEAN):
    check(
        (self >= 0) & (self <= 1), "all elements of input should be between 0 and 1", RuntimeError
    )
    self, target, weight = promote(self, target, weight)
    # PyTorch bounds the logarithms so that a certain but wrong prediction has a finite loss.
    no, yes = (jnp.maximum(log, -100) for log in (jnp.log1p(-self), jnp.log(self)))
    loss = (target - 1) * no - target * yes
    return _reduced(loss if weight is None else loss * weight, reduction, self, target)


@lowering(aten.binary_cross_entropy_backward.default)
def binary_cross_entropy_backward(grad_output, self, target, weight=None, reduction=_MEAN):
    grad_output, self, target, weight = promote(grad_output, self, target, weight)
    slope = (self - target) / jnp.maximum((1 - self) * self, 1e-12)
    grad_input = _spread(grad_output, self, reduction) * slope
    return grad_input if weight is None else grad_input * weight


@lowering(aten.binary_cross_entropy_with_logits.default)
def binary_cross_entropy_with_logits(self, target, weight=None, pos_weight=None, reduction=_MEAN):
    self, target, weight, pos_weight = promote(self, target, weight, pos_weight)
    log_sigmoid = jnp.minimum(self, 0) - jnp.log1p(jnp.exp(-jnp.abs(self)))
    if pos_weight is not None:
        log_sigmoid = log_sigmoid * ((pos_weight - 1) * target + 1)
    loss = (1 - target) * self - log_sigmoid
    return _reduced(loss if weight is None else loss * weight, reduction, self, target)


def _class_dim(scores):
    """The dim of (C), (N, C) and (N, C, H, W) scores that counts classes."""
    return min(scores.ndim - 1, 1)


def _is_class(scores, target):
    """True where an element of ``scores`` belongs to its target's class.

    A comparison rather than a gather or scatter: it fuses with the log-softmax around it.
    """
    dim = _class_dim(scores)
    classes = lax.broadcasted_iota(jnp.int32, scores.shape, dim)
    return classes == jnp.expand_dims(target.astype(jnp.int32), dim)


def _class_score(scores, target):
    """The score of each target's class; any score where there is no such class.

    A CPU reads just those; elsewhere a comparison with all beats a gather (see ``_is_class``).
    """
    dim = _class_dim(scores)

    def read(scores, target):
        places = jnp.expand_dims(target.astype(jnp.int32), dim)
        return jnp.take_along_axis(scores, places, dim, mode="promise_in_bounds").squeeze(dim)

    def select(scores, target):
        return jnp.sum(jnp.where(_is_class(scores, target), scores, 0), axis=dim)

    return by_platform(scores, target, cpu=read, default=select)


def _class_weight(weight, target, counts):
    """Each target's weight, 0 for those that do not count."""
    chosen = 1 if weight is None else jnp.take(weight, target.astype(jnp.int32), mode="clip")
    return jnp.where(counts, chosen, 0)


@lowering(aten.nll_loss_forward.default, aten.nll_loss2d_forward.default)
def nll_loss_forward(self, target, weight, reduction, ignore_index):
    self, weight = promote(self, weight)
    if target.ndim == self.ndim:  # one target of shape (1) for scores of shape (C)
        target = target.reshape(())
    counts = (target != ignore_index) & sizes.inside(target)
    dim = _class_dim(self)
    within = (target >= 0) & (target < self.shape[dim])
    check(~counts | within, "Target {value} is out of bounds.", value=target)
    factor = _class_weight(weight, target, counts).astype(self.dtype)
    loss = jnp.where(counts, -_class_score(self, target) * factor, 0)
    if reduction == 0 and self.ndim > 1:
        return loss, jnp.zeros((), self.dtype)
    total, total_weight = jnp.sum(loss), jnp.sum(factor)
    return total / total_weight if reduction == _MEAN else total, total_weight


@lowering(aten.nll_loss_backward.default, aten.nll_loss2d_backward.default)
def nll_loss_backward(grad_output, self, target, weight, reduction, ignore_index, total_weight):
    grad_output, self, weight, total_weight = promote(grad_output, self, weight, total_weight)
    if target.ndim == self.ndim:
        target, grad_output = target.reshape(()), grad_output.reshape(())
    counts = target != ignore_index
    grad = grad_output / total_weight if reduction == _MEAN else grad_output
    grad = jnp.where(counts, -grad * _class_weight(weight, target, counts), 0)
    hit = _is_class(self, target)
    return jnp.where(hit, jnp.expand_dims(grad, _class_dim(self)), 0).astype(self.dtype)


def _rows(array):
    """(N, C) from scores or labels of shape (N, C), (C) or ()."""
    return jnp.atleast_2d(array)


def _through_rows(slope, grad_output, reduction):
    """The gradient of (N, C) scores from that of their rows' losses, and each loss's slope."""
    grad = _spread(grad_output, slope[:, 0], reduction)
    return slope * (grad if reduction else grad.reshape(-1, 1))


def _multi_margin_terms(self, target, margin):
    """How far each class's score is above its target's less the margin; 0 for the target."""
    hit = _is_class(self, target)
    score = jnp.sum(jnp.where(hit, self, 0), axis=1, keepdims=True)
    return hit, jnp.where(hit, 0, jnp.maximum(margin - score + self, 0))


@lowering(aten.multi_margin_loss.default, static=("p",))
def multi_margin_loss(self, target, p=1, margin=1, weight=None, reduction=_MEAN):
    scores, margin, weight = promote(self, margin, weight)
    scores, labels = _rows(scores), target.reshape(-1)
    check((labels >= 0) & (labels < scores.shape[1]), "target out of range", RuntimeError)
    _, excess = _multi_margin_terms(scores, labels, margin)
    loss = jnp.sum(excess**p, axis=1) / scores.shape[1]
    if weight is not None:
        loss = loss * _class_weight(weight, labels, True)
    return _reduced(loss, reduction) if reduction else loss.reshape(target.shape)


@lowering(aten.multi_margin_loss_backward.default, static=("p",))
def multi_margin_loss_backward(grad_output, self, target, p, margin, weight=None, reduction=_MEAN):
    grad_output, scores, margin, weight = promote(grad_output, self, margin, weight)
    scores, labels = _rows(scores), target.reshape(-1)
    hit, excess = _multi_margin_terms(scores, labels, margin)
    slope = (excess > 0) if p == 1 else 2 * excess
    slope = slope.astype(scores.dtype) / scores.shape[1]
    if weight is not None:
        slope = slope * _class_weight(weight, labels, True)[:, None]
    slope = jnp.where(hit, -jnp.sum(slope, axis=1, keepdims=True), slope)
    return _through_rows(slope, grad_output, reduction).reshape(self.shape)


def _labels(target, classes):
    """Which entries of rows of labels count (those before the first -1), and their one-hot rows."""
    counts = jnp.cumsum(target < 0, axis=1, dtype=jnp.int32) == 0
    hit = target.astype(jnp.int32)[:, :, None] == jnp.arange(classes, dtype=jnp.int32)
    return hit & counts[:, :, None]


def _multilabel_excess(scores, hit, is_target):
    """1 + score - label's score, where positive, for each (row, label, class that is no label)."""
    label_score = jnp.sum(jnp.where(hit, scores[:, None, :], 0), axis=2, keepdims=True)
    excess = jnp.maximum(1 - label_score + scores[:, None, :], 0)
    return jnp.where(jnp.any(hit, axis=2, keepdims=True) & ~is_target[:, None, :], excess, 0)


@lowering(aten.multilabel_margin_loss_forward.default)
def multilabel_margin_loss_forward(self, target, reduction):
    (scores,) = promote(self)
    scores, labels = _rows(scores), _rows(target)
    classes = scores.shape[1]
    check((target >= -1) & (target < classes), "target is out of range", RuntimeError)
    hit = _labels(labels, classes)
    is_target = jnp.any(hit, axis=1)
    excess = _multilabel_excess(scores, hit, is_target)
    loss = jnp.sum(excess, axis=(1, 2)) / classes
    loss = _reduced(loss, reduction) if reduction or target.ndim > 1 else loss.reshape(())
    return loss, is_target.reshape(target.shape).astype(self.dtype)


@lowering(aten.multilabel_margin_loss_backward.default)
def multilabel_margin_loss_backward(grad_output, self, target, reduction, is_target):
    grad_output, scores = promote(grad_output, self)
    scores, labels = _rows(scores), _rows(target)
    classes = scores.shape[1]
    hit = _labels(labels, classes)
    active = _multilabel_excess(scores, hit, is_target.reshape(labels.shape) != 0) > 0
    active = active.astype(scores.dtype)
    per_label = jnp.sum(active, axis=2, keepdims=True)
    slope = jnp.sum(active - jnp.where(hit, per_label, 0), axis=1) / classes
    return _through_rows(slope, grad_output, reduction).reshape(self.shape)


@lowering(aten._euclidean_dist.default)
def _euclidean_dist(x1, x2):
    x1, x2 = promote(x1, x2)
    norms = [jnp.sum(jnp.square(x), axis=-1) for x in (x1, x2)]
    product = jnp.matmul(x1, jnp.swapaxes(x2, -1, -2))
    squared = norms[0][..., :, None] + norms[1][..., None, :] - 2 * product
    return jnp.sqrt(jnp.maximum(squared, 0))


@lowering(aten._assert_async.default)
def _assert_async(self):
    _assert_async_message(self, "Expected Tensor with single nonzero value, but got zero")


@lowering(aten._assert_async.msg)
def _assert_async_message(self, assert_msg):
    check(cast(self, torch.bool), assert_msg, RuntimeError)


@lowering(aten._functional_assert_async.msg)
def _functional_assert_async(self, assert_msg, dep_token):
    _assert_async_message(self, assert_msg)
    return dep_token
