"""Random numbers: draws from the generator's key, and the distributions built on them.

A draw is Threefry-2x32 of (key, place of the element), the two words xored, so each element's
bits depend on nothing but the key and its place: XLA can fuse, split or repeat the arithmetic
and the numbers stay the same on every platform. One block for each element costs twice the
arithmetic of jax.random's two elements for a block, yet runs ten times as fast on XLA:CPU and
compiles in a fifth of the time, because nothing is concatenated and everything fuses.
"""

import jax
import jax.numpy as jnp
import numpy as np
import torch
from jax import lax

from torch_tpu.lowering import dtypes, sizes
from torch_tpu.lowering.checks import check
from torch_tpu.lowering.promotion import cast
from torch_tpu.lowering.registry import lowering

aten = torch.ops.aten

_ROTATIONS = (13, 15, 26, 6, 17, 29, 16, 24)
_PARITY = 0x1BD11BDA
# Salmon et al. 2011: 20 rounds leave a wide margin, 13 are the fewest that pass BigCrush. A key
# is derived once with the margin; the hot draws take the fewest.
_KEY_ROUNDS, _DRAW_ROUNDS = 20, 13


def _threefry(key, counter, rounds):
    """Two uint32 words for each counter, a pair of uint32 arrays as is the key."""
    schedule = (*key, key[0] ^ key[1] ^ np.uint32(_PARITY))
    left, right = counter[0] + schedule[0], counter[1] + schedule[1]
    for place in range(rounds):
        turn = _ROTATIONS[place % 8]
        left = left + right
        right = (right << np.uint32(turn) | right >> np.uint32(32 - turn)) ^ left
        if place % 4 == 3:
            step = place // 4 + 1
            left = left + schedule[step % 3]
            right = right + schedule[(step + 1) % 3] + np.uint32(step)
    return left, right


def _words(number):
    """The low and the high half of a 64-bit integer."""
    number = lax.convert_element_type(number, jnp.uint64)
    return number.astype(jnp.uint32), (number >> np.uint64(32)).astype(jnp.uint32)


def key(seed, offset):
    """The JAX key of an op from its generator's seed and offset, both 64 bits wide."""
    words = _threefry(_words(seed), _words(offset), _KEY_ROUNDS)
    return jax.random.wrap_key_data(jnp.stack(words), impl="threefry2x32")


def _blocks(generator, shape, stream):
    """A block of two words for each element; streams are independent of each other."""
    place = jnp.zeros(shape, jnp.uint32)
    stride = 1
    for axis, size in reversed(list(enumerate(sizes.drawn(shape)))):
        step = sizes.number(stride if sizes.is_traced(stride) else stride % 2**32, jnp.uint32)
        place += lax.broadcasted_iota(jnp.uint32, shape, axis) * step
        stride = stride * sizes.value(size)
    words = jax.random.key_data(generator)
    return _threefry((words[0], words[1]), (place, jnp.full_like(place, stream)), _DRAW_ROUNDS)


def bits(generator, shape, stream=0):
    """Independent uniform uint32 numbers."""
    left, right = _blocks(generator, shape, stream)
    return left ^ right


def bits64(generator, shape, stream=0):
    """Independent uniform uint64 numbers."""
    left, right = _blocks(generator, shape, stream)
    return left.astype(jnp.uint64) << np.uint64(32) | right.astype(jnp.uint64)


def _compute_dtype(dtype):
    """float64 for itself, float32 for every other dtype that numbers are wanted in."""
    return jnp.float64 if dtype in (jnp.float64, jnp.complex128) else jnp.float32


def uniform_bits(generator, shape, dtype, digits, stream=0):
    """Whole numbers below 2**digits in a floating dtype that holds them exactly."""
    if dtype == jnp.float64:
        return (bits64(generator, shape, stream) >> np.uint64(64 - digits)).astype(dtype)
    return (bits(generator, shape, stream) >> np.uint32(32 - digits)).astype(dtype)


def unit_uniform(generator, shape, dtype, stream=0):
    """Uniform in [0, 1), with as many bits as ``dtype`` (its own, not the wider one) has."""
    digits = jnp.finfo(dtype).nmant + 1
    scale = np.array(2.0**-digits, _compute_dtype(dtype))
    return uniform_bits(generator, shape, scale.dtype, digits, stream) * scale


def open_uniform(generator, shape, dtype, stream=0):
    """Uniform in (0, 1): midpoints of equal steps, so neither end can appear."""
    dtype = _compute_dtype(dtype)
    digits = jnp.finfo(dtype).nmant
    whole = uniform_bits(generator, shape, dtype, digits, stream)
    return (whole + np.array(0.5, dtype)) * np.array(2.0**-digits, dtype)


def unit_normal(generator, shape, dtype, stream=0):
    """The standard normal distribution; complex ones have half the variance in each part."""
    if jnp.issubdtype(dtype, jnp.complexfloating):
        both = unit_normal(generator, (2, *shape), _compute_dtype(dtype), stream)
        return lax.complex(both[0], both[1]) * np.sqrt(0.5).astype(both.dtype)
    dtype = _compute_dtype(dtype)
    digits = jnp.finfo(dtype).nmant + 1
    whole = uniform_bits(generator, shape, dtype, digits, stream)
    # Odd multiples of 2**-digits, exact in this dtype: symmetric about zero and never +-1.
    centred = whole * np.array(2.0 ** (1 - digits), dtype) - np.array(1 - 2.0**-digits, dtype)
    return lax.erf_inv(centred) * np.array(np.sqrt(2), dtype)


def keep_mask(generator, shape, probability, stream=0):
    """True with a probability, a scalar; exact to 2**-32."""
    probability = lax.convert_element_type(probability, jnp.float64)
    threshold = jnp.clip(probability, 0, 1) * 2.0**32
    sure = threshold >= 2.0**32
    threshold = jnp.where(sure, 0, threshold).astype(jnp.uint32)
    return (bits(generator, shape, stream) < threshold) | sure


@lowering(aten.uniform.default)
def uniform(self, from_=0.0, to=1.0, *, generator):
    unit = unit_uniform(generator, self.shape, self.dtype)
    from_, to = (lax.convert_element_type(end, unit.dtype) for end in (from_, to))
    return unit * (to - from_) + from_


@lowering(aten.normal_functional.default)
def normal_functional(self, mean=0.0, std=1.0, *, generator):
    unit = unit_normal(generator, self.shape, self.dtype)
    mean, std = (lax.convert_element_type(value, unit.real.dtype) for value in (mean, std))
    if jnp.iscomplexobj(unit):  # PyTorch adds the mean to both parts
        mean = lax.complex(mean, mean)
    return unit * std + mean


@lowering(aten.normal.Tensor_float, aten.normal.float_Tensor, aten.normal.Tensor_Tensor)
def normal(mean, std=1.0, *, generator):
    if not std.weak_type:  # a number was looked at by the call
        check(std >= 0, "normal expects all elements of std >= 0.0", RuntimeError)
    shape = jnp.broadcast_shapes(jnp.shape(mean), jnp.shape(std))
    dtype = mean.dtype if not mean.weak_type else std.dtype
    unit = unit_normal(generator, shape, dtype)
    mean, std = (lax.convert_element_type(value, unit.dtype) for value in (mean, std))
    return unit * std + mean


@lowering(aten.log_normal.default)
def log_normal(self, mean=1.0, std=2.0, *, generator):
    return jnp.exp(normal_functional(self, mean, std, generator=generator))


@lowering(aten.exponential.default)
def exponential(self, lambd=1.0, *, generator):
    unit = open_uniform(generator, self.shape, self.dtype)
    return -jnp.log(unit) / lax.convert_element_type(lambd, unit.dtype)


@lowering(aten.cauchy.default)
def cauchy(self, median=0.0, sigma=1.0, *, generator):
    unit = open_uniform(generator, self.shape, self.dtype)
    median, sigma = (lax.convert_element_type(value, unit.dtype) for value in (median, sigma))
    return median + sigma * jnp.tan(np.pi * (unit - 0.5))


@lowering(aten.geometric.default)
def geometric(self, p, *, generator):
    unit = open_uniform(generator, self.shape, self.dtype)
    trials = jnp.ceil(jnp.log(unit) / jnp.log1p(-lax.convert_element_type(p, unit.dtype)))
    return jnp.maximum(trials, 1)


@lowering(aten.bernoulli.p)
def bernoulli_p(self, p, *, generator):
    return keep_mask(generator, self.shape, p).astype(self.dtype)


_IMPOSSIBLE = (
    "Expected p_in >= 0 && p_in <= 1 to be true, but got false.  (Could this error message be "
    "improved?  If so, please report an enhancement request to PyTorch.)"
)


@lowering(aten.bernoulli.Tensor)
def bernoulli_tensor(self, p, *, generator):
    check((p >= 0) & (p <= 1), _IMPOSSIBLE, RuntimeError)
    dtype = p.dtype if jnp.issubdtype(p.dtype, jnp.floating) else jnp.float32
    unit = unit_uniform(generator, self.shape, _compute_dtype(dtype))
    return (unit < jnp.broadcast_to(p, self.shape)).astype(self.dtype)


@lowering(aten.bernoulli.default)
def bernoulli(self, *, generator):
    return bernoulli_tensor(self, self, generator=generator)


def _below(generator, shape, bound):
    """Whole numbers below a uint64 bound, 0 standing for 2**64.

    The high half of draw * bound: no 64-bit division, which TPUs lack, and with 64 bits drawn
    the bias is below bound / 2**64.
    """
    left, right = (word.astype(jnp.uint64) for word in _blocks(generator, shape, 0))
    low, high = (word.astype(jnp.uint64) for word in _words(bound))
    half = np.uint64(32)
    mask = np.uint64(2**32 - 1)
    cross = left * low + (right * low >> half)
    other = right * high + (cross & mask)
    product = left * high + (cross >> half) + (other >> half)
    return jnp.where(bound == 0, left << half | right, product)


def _largest(dtype):
    """The largest value of random_: each whole number up to it is representable."""
    if jnp.issubdtype(dtype, jnp.floating):
        return 2 ** (jnp.finfo(dtype).nmant + 1)
    return 1 if dtype == jnp.bool_ else int(jnp.iinfo(dtype).max)


def _as_dtype(whole, dtype):
    """uint64 two's complement numbers in the dtype of the result."""
    signed = whole if dtype == jnp.uint64 else lax.bitcast_convert_type(whole, jnp.int64)
    return signed.astype(_compute_dtype(dtype)) if dtype in _NARROW_FLOATS else signed.astype(dtype)


_NARROW_FLOATS = (jnp.float16, jnp.bfloat16)


@lowering(aten.random.default)
def random(self, *, generator):
    return random_from(self, np.int64(0), None, generator=generator)


@lowering(aten.random.to, runtime=("to",))
def random_to(self, to, *, generator):
    return random_from(self, np.int64(0), to, generator=generator)


@lowering(getattr(aten.random, "from"), runtime=("from", "to"))
def random_from(self, from_, to, *, generator):
    start = lax.convert_element_type(from_, jnp.uint64)
    if to is None:
        end = np.uint64((_largest(self.dtype) + 1) % 2**64)
    else:
        end = lax.convert_element_type(to, jnp.uint64)
    return _as_dtype(_below(generator, self.shape, end - start) + start, self.dtype)


@lowering(aten.randperm.default, aten.randperm.generator, aten.randperm.generator_out)
def randperm(n, *, dtype=None, layout=None, device=None, pin_memory=None, generator):
    first, second = _blocks(generator, (n,), 0)
    place = lax.iota(jnp.int32 if n < 2**31 else jnp.int64, n)
    return lax.sort((first, second, place), num_keys=2)[2]


def _check_probabilities(weights, each):
    """Refuse what is no distribution in the words of the CPU, which looks at ``each`` or at all."""
    is_finite, is_positive = jnp.isfinite(weights), weights >= 0
    invalid = "invalid multinomial distribution"
    if each:
        check(is_positive, f"{invalid} (encountering probability entry < 0)", RuntimeError)
        infinite = f"{invalid} (encountering probability entry = infinity or NaN)"
        check(is_finite, infinite, RuntimeError)
    else:
        message = "probability tensor contains either `inf`, `nan` or element < 0"
        check(is_finite & is_positive, message, RuntimeError)
    check(jnp.sum(weights, -1) > 0, f"{invalid} (sum of probabilities <= 0)", RuntimeError)


@lowering(aten.multinomial.default)
def multinomial(self, num_samples, replacement=False, *, generator):
    if not replacement and num_samples > self.shape[-1]:
        raise RuntimeError(
            "cannot sample n_sample > prob_dist.size(-1) samples without replacement"
        )
    if self.shape[-1] > 2**24:
        raise RuntimeError("number of categories cannot exceed 2^24")
    weights = self.astype(_compute_dtype(self.dtype))
    _check_probabilities(weights, each=replacement and num_samples > 1)
    if not replacement or num_samples == 1:
        # The first arrivals of independent exponential clocks are a draw without replacement.
        clocks = -jnp.log(open_uniform(generator, weights.shape, weights.dtype))
        return lax.top_k(weights / clocks, num_samples)[1]
    total = jnp.cumsum(weights, axis=-1)
    unit = unit_uniform(generator, (*weights.shape[:-1], num_samples), weights.dtype)
    aim = unit * total[..., -1:]
    search = jnp.searchsorted
    for _ in weights.shape[:-1]:
        search = jax.vmap(search, in_axes=(0, 0, None))
    found = search(total, aim, "right") if weights.ndim > 1 else search(total, aim, side="right")
    # Rounding may aim at the very end: the last category with a weight stands there.
    categories = lax.broadcasted_iota(found.dtype, weights.shape, weights.ndim - 1)
    last = jnp.max(jnp.where(weights > 0, categories, 0), axis=-1, keepdims=True)
    return jnp.minimum(found, last)


@lowering(aten.native_dropout.default)
def native_dropout(input, p, train, *, generator):
    if train is False:
        return input, jnp.ones(input.shape, bool)
    keep = 1 - lax.convert_element_type(p, jnp.float64)
    mask = keep_mask(generator, input.shape, keep)
    scale = jnp.where(keep == 0, 0, 1 / jnp.where(keep == 0, 1, keep))
    return native_dropout_backward(input, mask, scale), mask


@lowering(aten._fused_dropout.default)
def _fused_dropout(self, p, *, generator):
    mask = keep_mask(generator, self.shape, p)
    scale = 1 / lax.convert_element_type(p, jnp.float64)
    return native_dropout_backward(self, mask, scale), mask.astype(jnp.uint8)


@lowering(aten.native_dropout_backward.default, aten._masked_scale.default)
def native_dropout_backward(grad_output, mask, scale):
    # A product, not a selection: PyTorch gives nan for an infinity that is dropped.
    grad_output = cast(grad_output, dtypes.opmath(dtypes.to_torch(grad_output.dtype)))
    scale = lax.convert_element_type(scale, grad_output.dtype)
    return grad_output * jnp.where(mask != 0, scale, jnp.zeros_like(scale))


@lowering(aten.rrelu_with_noise_functional.default)
def rrelu_with_noise_functional(
    self, noise, lower=0.125, upper=1 / 3, training=False, *, generator
):
    dtype = _compute_dtype(self.dtype)
    lower, upper = (lax.convert_element_type(end, dtype) for end in (lower, upper))
    if not training:
        return jnp.where(self > 0, self, self.astype(dtype) * ((lower + upper) / 2)), noise
    slope = unit_uniform(generator, self.shape, dtype) * (upper - lower) + lower
    slope = jnp.where(self <= 0, slope, jnp.ones_like(slope))
    return self.astype(dtype) * slope, slope
