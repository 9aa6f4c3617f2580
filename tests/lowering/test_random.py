"""Random rules: their distributions, ranges and determinism, and the gradients of samples."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from scipy import stats
from shadow import Shadow, run_rule

from torch_tpu.lowering import random

aten = torch.ops.aten
SHAPE = (40, 500)


def draw(overload, *args, seed=7, **kwargs):
    return np.asarray(run_rule(overload, args, kwargs, seed=seed))


def empty(dtype=torch.float32, shape=SHAPE):
    return torch.zeros(shape, dtype=dtype)


CONTINUOUS = [
    (aten.uniform.default, (-1.0, 3.0), stats.uniform(-1, 4)),
    (aten.normal_functional.default, (2.0, 3.0), stats.norm(2, 3)),
    (aten.log_normal.default, (0.5, 0.75), stats.lognorm(0.75, scale=math.exp(0.5))),
    (aten.exponential.default, (2.0,), stats.expon(scale=0.5)),
    (aten.cauchy.default, (1.0, 2.0), stats.cauchy(1, 2)),
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("overload, args, law", CONTINUOUS, ids=lambda x: str(x)[:20])
def test_continuous_laws(overload, args, law, dtype):
    numbers = draw(overload, empty(dtype), *args)
    assert numbers.shape == SHAPE and np.isfinite(numbers).all()
    assert stats.kstest(numbers.reshape(-1), law.cdf).pvalue > 1e-3


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_narrow_uniform_stays_below_its_end(dtype):
    numbers = draw(aten.uniform.default, empty(dtype), 0.0, 1.0)
    assert torch.tensor(numbers).to(dtype).max() < 1 and abs(numbers.mean() - 0.5) < 0.01


def test_normal_of_tensors():
    mean, std = torch.arange(3.0)[:, None], torch.tensor([[0.0, 2.0]]).expand(20_000, 1, 2)
    numbers = draw(aten.normal.Tensor_Tensor, mean, std)
    assert numbers.shape == (20_000, 3, 2)
    np.testing.assert_array_equal(numbers[:, 2, 0], 2)
    np.testing.assert_allclose(numbers.mean(0)[:, 1], [0, 1, 2], atol=0.06)
    assert draw(aten.normal.float_Tensor, 1.0, std).shape == (20_000, 1, 2)
    parts = draw(aten.normal_functional.default, empty(torch.complex64), 0.0, 1.0)
    np.testing.assert_allclose([parts.real.var(), parts.imag.var()], 0.5, atol=0.02)


# What random_ gives on the CPU: whole numbers that the dtype can hold exactly.
LARGEST = {
    torch.bool: 1,
    torch.uint8: 255,
    torch.int8: 127,
    torch.int32: 2**31 - 1,
    torch.int64: 2**63 - 1,
    torch.float16: 2**11,
    torch.bfloat16: 2**8,
    torch.float32: 2**24,
    torch.float64: 2**53,
}


@pytest.mark.parametrize("dtype", LARGEST, ids=str)
def test_random_fills_the_range_of_its_dtype(dtype):
    numbers = draw(aten.random.default, empty(dtype)).astype(np.float64)
    assert numbers.min() >= 0 and numbers.max() <= LARGEST[dtype]
    assert abs(numbers.mean() / LARGEST[dtype] - 0.5) < 0.015


def test_random_between_bounds():
    random_from = getattr(aten.random, "from")
    numbers = draw(random_from, empty(torch.int64), -5, 7)
    assert np.unique(numbers).tolist() == list(range(-5, 7))
    assert stats.chisquare(np.unique(numbers, return_counts=True)[1]).pvalue > 1e-3
    wide = draw(random_from, empty(torch.int64), -(2**63), None).astype(np.float64)
    assert wide.min() < -(2**62) and wide.max() > 2**62
    assert draw(random_from, empty(torch.int8), 120, None).max() == 127
    far = draw(aten.random.to, empty(torch.int64), 3 * 2**61)
    assert stats.kstest(far.reshape(-1) / (3.0 * 2**61), stats.uniform.cdf).pvalue > 1e-3


@pytest.mark.parametrize("p", [0.0, 0.1, 0.75, 1.0])
def test_bernoulli(p):
    for numbers in (
        draw(aten.bernoulli.p, empty(torch.int64), p),
        draw(aten.bernoulli.default, torch.full(SHAPE, p)),
        draw(aten.bernoulli.Tensor, empty(torch.bool), torch.full((500,), p)),
    ):
        assert abs(numbers.mean() - p) < 5 * math.sqrt(p * (1 - p) / numbers.size) + 1e-12


@pytest.mark.parametrize(
    "overload, args, mean, variance",
    [
        (aten.geometric.default, (empty(torch.int64), 0.25), 4, 12),
        (aten.poisson.default, (torch.full(SHAPE, 3.0),), 3, 3),
        (aten.poisson.default, (torch.full(SHAPE, 40.0),), 40, 40),
        (aten.binomial.default, (torch.full(SHAPE, 10.0), torch.full(SHAPE, 0.3)), 3, 2.1),
        (aten._standard_gamma.default, (torch.full(SHAPE, 2.5),), 2.5, 2.5),
        (aten._sample_dirichlet.default, (torch.full((10_000, 2), 1.5),), 0.5, 1 / 16),
    ],
    ids=lambda x: str(x)[:30],
)
def test_moments(overload, args, mean, variance):
    numbers = draw(overload, *args).astype(np.float64)
    assert abs(numbers.mean() - mean) < 5 * math.sqrt(variance / numbers.size)
    assert abs(numbers.var() / variance - 1) < 0.08


def test_multinomial():
    weights = torch.tensor([[1.0, 0, 3, 0], [0, 2, 2, 1]])
    chosen = draw(aten.multinomial.default, weights, 10_000, True)
    for row, weight in zip(chosen, weights.numpy(), strict=True):
        share = np.bincount(row, minlength=4) / len(row)
        np.testing.assert_allclose(share, weight / weight.sum(), atol=0.02)
        assert not share[weight == 0].any()
    pairs = draw(aten.multinomial.default, weights.repeat(2000, 1), 2)
    assert (np.sort(pairs[::2], 1) == [0, 2]).all() and (pairs[:, 0] != pairs[:, 1]).all()
    assert abs((pairs[::2, 0] == 2).mean() - 0.75) < 0.05
    assert draw(aten.multinomial.default, weights[0], 3, True).shape == (3,)
    with pytest.raises(ValueError, match="probability tensor contains"):
        draw(aten.multinomial.default, -weights, 1)


def test_randperm():
    order = draw(aten.randperm.generator_out, 1000)
    assert sorted(order.tolist()) == list(range(1000))
    firsts = [draw(aten.randperm.default, 4, seed=seed)[0] for seed in range(8)]
    assert len({int(first) for first in firsts}) > 1
    assert draw(aten.randperm.default, 0).shape == (0,)


@pytest.mark.parametrize("p", [0.0, 0.25, 1.0])
def test_dropout(p):
    self = torch.full((400, 300), 3.0, dtype=torch.bfloat16)
    result, mask = run_rule(aten.native_dropout.default, (self, p, True), {})
    mask = np.asarray(mask)
    assert abs(mask.mean() - (1 - p)) < 5 * math.sqrt(p * (1 - p) / mask.size) + 1e-12
    np.testing.assert_allclose(np.asarray(result), mask * (3 / (1 - p) if p < 1 else 0), rtol=1e-6)
    result, mask = run_rule(aten.native_dropout.default, (self, p, False), {})
    assert np.asarray(mask).all() and (np.asarray(result) == 3).all()


def test_dropout_gradient():
    with Shadow() as shadow:
        aten.native_dropout_backward(torch.randn(5, 6), torch.rand(5, 6) > 0.5, 2.0)
        aten.native_dropout_backward(torch.tensor([math.inf]), torch.tensor([False]), 2.0)
    assert shadow.seen


def test_rrelu():
    self = torch.randn(SHAPE)
    args = (self, torch.empty_like(self), 0.1, 0.3, True)
    result, noise = (
        np.asarray(each) for each in run_rule(aten.rrelu_with_noise_functional.default, args, {})
    )
    np.testing.assert_array_equal(result, self.numpy() * noise)
    negative = self.numpy() <= 0
    assert (noise[~negative] == 1).all()
    assert stats.kstest(noise[negative], stats.uniform(0.1, 0.2).cdf).pvalue > 1e-3


def test_gradients_of_samples():
    alpha, beta = (10 ** (torch.rand(2, 500, dtype=torch.float64) * 4 - 2)).unbind()
    gamma = torch._standard_gamma(alpha)
    x = torch.distributions.Beta(alpha, beta).sample().clamp(1e-6, 1 - 1e-6)
    # PyTorch's are approximations, good to about a hundredth.
    with Shadow(rtol=2e-2, atol=1e-6) as shadow:
        torch._standard_gamma_grad(alpha, gamma)
        torch._dirichlet_grad(x, alpha, alpha + beta)
    assert {"aten._standard_gamma_grad.default", "aten._dirichlet_grad.default"} <= set(shadow.seen)


def test_numbers_depend_on_the_key_alone():
    @jax.jit
    def numbers(generator, shape=(64, 48)):
        return random.unit_normal(generator, shape, jnp.float32)

    @jax.jit
    def consumed(generator, scale):
        drawn = random.unit_normal(generator, (64, 48), jnp.float32)
        return jnp.where(jnp.tanh(drawn * scale).sum(1, keepdims=True) > 1e9, 0.0, drawn)

    with jax.enable_x64(True):
        key = random.key(jnp.int64(3), jnp.int64(5))
        np.testing.assert_array_equal(numbers(key), consumed(key, 2.0))
        flat = random.bits(key, (64 * 48,))
        np.testing.assert_array_equal(random.bits(key, (64, 48)).reshape(-1), flat)


def test_all_64_bits_of_seed_and_offset_count():
    with jax.enable_x64(True):
        pairs = [(0, 0), (1, 0), (2**32, 0), (-1, 0), (0, 1), (0, 2**32), (2**63 - 1, 0)]
        keys = [random.key(jnp.int64(seed), jnp.int64(offset)) for seed, offset in pairs]
        draws = [tuple(np.asarray(random.bits(key, (4,)))) for key in keys]
        assert len(set(draws)) == len(pairs)
        unsigned = random.bits(random.key(jnp.uint64(2**64 - 1), jnp.int64(0)), (4,))
        assert tuple(np.asarray(unsigned)) == draws[3]


def test_draws_pass_for_independent_bits():
    with jax.enable_x64(True):
        keys = [random.key(jnp.int64(1), jnp.int64(offset)) for offset in range(8)]
        words = np.stack([np.asarray(random.bits(key, (4096,))) for key in keys])
    bits = np.unpackbits(words.view(np.uint8), axis=1).astype(np.float64)
    assert abs(bits.mean() - 0.5) < 5 * 0.5 / math.sqrt(bits.size)
    correlation = np.corrcoef(bits) - np.eye(len(bits))
    assert np.abs(correlation).max() < 5 / math.sqrt(bits.shape[1])
    shifted = np.corrcoef(words[0, :-1].astype(float), words[0, 1:].astype(float))[0, 1]
    assert abs(shifted) < 5 / math.sqrt(4096)
