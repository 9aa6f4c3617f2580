"""Connectionist temporal classification: the alpha and beta recursions over time.

States are the target's labels with blanks between and around them: 2 * length + 1 of them.
"""

import jax.numpy as jnp
import torch
from jax import lax
from jax.nn import one_hot

from torch_tpu.lowering.promotion import promote
from torch_tpu.lowering.registry import lowering

aten = torch.ops.aten

_NEVER = -jnp.inf


def _lengths(lengths):
    return jnp.asarray(lengths, jnp.int32)


def _state_labels(targets, target_lengths, states, blank):
    """The label of each state (N, states), from (N, labels) or concatenated targets."""
    place = jnp.arange(states // 2, dtype=jnp.int32)
    if targets.size == 0:
        labels = jnp.full((len(target_lengths), len(place)), blank, jnp.int32)
    elif targets.ndim == 1:
        starts = jnp.cumsum(target_lengths, dtype=jnp.int32) - target_lengths
        labels = jnp.take(targets, starts[:, None] + place, mode="clip")
    else:
        labels = jnp.take(targets, place, axis=1, mode="clip")
    blanks = jnp.full((len(target_lengths), states), blank, jnp.int32)
    return blanks.at[:, 1::2].set(labels.astype(jnp.int32))


def _later(log_state, steps):
    """Values moved ``steps`` states up (down where negative)."""
    fill = jnp.asarray(_NEVER, log_state.dtype)
    return lax.pad(log_state, fill, ((0, 0, 0), (steps, -steps, 0)))


def _may_skip(labels):
    """Where a path may come from two states before: over a blank between unlike labels."""
    earlier = jnp.pad(labels, ((0, 0), (2, 0)), constant_values=-1)[:, : labels.shape[1]]
    return (labels != earlier) & (jnp.arange(labels.shape[1]) > 1)


def _emissions(log_probs, labels):
    """Each state's log-probability at each time (T, N, states)."""
    index = jnp.broadcast_to(labels, (log_probs.shape[0], *labels.shape))
    return jnp.take_along_axis(log_probs, index, axis=2, mode="clip")


def _log_alpha(emissions, labels):
    states = labels.shape[1]
    skips = _may_skip(labels)

    def step(log_alpha, emission):
        arrived = jnp.logaddexp(log_alpha, _later(log_alpha, 1))
        arrived = jnp.logaddexp(arrived, jnp.where(skips, _later(log_alpha, 2), _NEVER))
        return arrived + emission, arrived + emission

    first = jnp.where(jnp.arange(states) < 2, emissions[0], _NEVER)
    _, rest = lax.scan(step, first, emissions[1:])
    return jnp.concatenate((first[None], rest))


def _log_beta(emissions, labels, input_lengths, target_lengths):
    times, _, states = emissions.shape
    state, last = jnp.arange(states, dtype=jnp.int32), 2 * target_lengths[:, None]
    final = (state == last) | (state == last - 1)
    certain_end = jnp.where(final, jnp.zeros((), emissions.dtype), _NEVER)
    # Two states on, over a blank: the skip that the later state allows.
    skips = jnp.pad(_may_skip(labels), ((0, 0), (0, 2)))[:, 2:]

    def step(log_beta, inputs):
        time, emission = inputs
        arrived = jnp.logaddexp(log_beta, _later(log_beta, -1))
        arrived = jnp.logaddexp(arrived, jnp.where(skips, _later(log_beta, -2), _NEVER))
        ends = (time == input_lengths - 1)[:, None]
        arrived = jnp.where(ends, certain_end, arrived)
        return arrived + emission, arrived + emission

    start = jnp.full_like(emissions[0], _NEVER)
    inputs = (jnp.arange(times, dtype=jnp.int32), emissions)
    return lax.scan(step, start, inputs, reverse=True)[1]


def _loss(log_probs, targets, input_lengths, target_lengths, blank, states):
    (log_probs,) = promote(log_probs)
    input_lengths, target_lengths = _lengths(input_lengths), _lengths(target_lengths)
    labels = _state_labels(targets, target_lengths, states, blank)
    log_alpha = jnp.swapaxes(_log_alpha(_emissions(log_probs, labels), labels), 0, 1)
    ends = jnp.maximum(input_lengths - 1, 0)[:, None, None]
    at_end = jnp.take_along_axis(log_alpha, ends, axis=1, mode="clip")[:, 0]
    state, last = jnp.arange(states, dtype=jnp.int32), 2 * target_lengths[:, None]
    final = (state == last) | (state == last - 1)
    likelihood = jnp.logaddexp.reduce(jnp.where(final, at_end, _NEVER), axis=1)
    empty = jnp.where(target_lengths == 0, jnp.zeros_like(likelihood), jnp.inf)
    return jnp.where(input_lengths == 0, empty, -likelihood), log_alpha


@lowering(aten._ctc_loss.default)
def _ctc_loss(log_probs, targets, input_lengths, target_lengths, blank=0, zero_infinity=False):
    states = 2 * max(target_lengths, default=0) + 1
    return _loss(log_probs, targets, input_lengths, target_lengths, blank, states)


def _states(log_probs, targets, input_lengths, target_lengths, blank, zero_infinity):
    return 2 * jnp.max(target_lengths, initial=0) + 1


@lowering(aten._ctc_loss.Tensor, size=_states)
def _ctc_loss_tensor(
    log_probs, targets, input_lengths, target_lengths, blank=0, zero_infinity=False, *, size
):
    return _loss(log_probs, targets, input_lengths, target_lengths, blank, size)


@lowering(aten._ctc_loss_backward.default, aten._ctc_loss_backward.Tensor)
def _ctc_loss_backward(
    grad,
    log_probs,
    targets,
    input_lengths,
    target_lengths,
    neg_log_likelihood,
    log_alpha,
    blank,
    zero_infinity=False,
):
    grad, log_probs, loss, log_alpha = promote(grad, log_probs, neg_log_likelihood, log_alpha)
    input_lengths, target_lengths = _lengths(input_lengths), _lengths(target_lengths)
    labels = _state_labels(targets, target_lengths, log_alpha.shape[2], blank)
    emissions = _emissions(log_probs, labels)
    log_beta = _log_beta(emissions, labels, input_lengths, target_lengths)
    # Both recursions count the emission, so one is taken off: what is left is the probability
    # of being in a state at a time, given the target.
    joint = jnp.swapaxes(log_alpha, 0, 1) + log_beta
    occupied = jnp.where(joint == _NEVER, 0, jnp.exp(joint - emissions + loss[:, None]))
    of_class = one_hot(labels, log_probs.shape[2], dtype=occupied.dtype)
    expected = jnp.einsum("tns,nsc->tnc", occupied, of_class)
    slope = (jnp.exp(log_probs) - expected) * grad[:, None]
    slope = jnp.where((loss == jnp.inf)[:, None], 0 if zero_infinity else jnp.nan, slope)
    times = jnp.arange(log_probs.shape[0], dtype=jnp.int32)
    return jnp.where((times[:, None] < input_lengths)[:, :, None], slope, 0)
