"""Gamma, Dirichlet, Poisson and binomial: samplers that reject, and gradients through samples."""

import jax
import jax.numpy as jnp
import numpy as np
import torch
from jax import lax

from torch_tpu.lowering import reductions
from torch_tpu.lowering.checks import check
from torch_tpu.lowering.registry import lowering

aten = torch.ops.aten


@lowering(aten.poisson.default)
def poisson(self, *, generator):
    check(self >= 0, "invalid Poisson rate, expected rate to be non-negative", RuntimeError)
    rate = reductions.to_opmath(self)
    return jax.random.poisson(generator, rate, dtype=jnp.int64).astype(rate.dtype)


@lowering(aten.binomial.default)
def binomial(count, prob, *, generator):
    count, prob = reductions.to_opmath(count), reductions.to_opmath(prob)
    shape = jnp.broadcast_shapes(count.shape, prob.shape)
    # As PyTorch takes them. Outside these ranges, and at -0, the sampler would reject for ever.
    count, prob = jnp.maximum(count, 0), jnp.abs(jnp.clip(prob, 0, 1))
    return jax.random.binomial(generator, count, prob, shape, dtype=count.dtype)


@lowering(aten._standard_gamma.default)
def _standard_gamma(self, *, generator):
    alpha = reductions.to_opmath(self)
    # PyTorch keeps samples off zero, whose logarithm and gradient aren't finite.
    return jnp.maximum(jax.random.gamma(generator, alpha), jnp.finfo(self.dtype).tiny)


@lowering(aten._standard_gamma_grad.default)
def _standard_gamma_grad(self, output):
    return lax.random_gamma_grad(reductions.to_opmath(self), reductions.to_opmath(output))


@lowering(aten._sample_dirichlet.default)
def _sample_dirichlet(self, *, generator):
    logarithms = jax.random.loggamma(generator, reductions.to_opmath(self))
    return jax.nn.softmax(logarithms, axis=-1)


_NODES = np.arange(-3.2, 3.21, 0.1)


@lowering(aten._dirichlet_grad.default)
def _dirichlet_grad(x, alpha, total):
    """dx/dalpha / (1 - x) where x is a quantile of Beta(alpha, total - alpha).

    That is -(dF/dalpha) / ((1 - x) f(x)) with F the distribution function, f the density, and
    dF/dalpha the integral of (log t - E[log t]) f(t) up to x, or minus that from x on. On the
    side where log t - E[log t] keeps its sign nothing cancels; over the logit of t the integrand
    is smooth and log-concave, so that exp-sinh quadrature gives it to float32's precision.
    """
    x, alpha, total = (reductions.to_opmath(each)[..., None] for each in (x, alpha, total))
    dtype, limits = x.dtype, jnp.finfo(x.dtype)
    x = jnp.clip(x, limits.tiny, 1 - limits.eps)
    beta = total - alpha
    mean_log = lax.digamma(alpha) - lax.digamma(total)
    side = jnp.where(jnp.log(x) < mean_log, -1, 1).astype(dtype)
    steps = np.exp(np.pi / 2 * np.sinh(_NODES))
    weights = steps * np.pi / 2 * np.cosh(_NODES) * (_NODES[1] - _NODES[0])
    width = 1 / alpha + 1 / beta
    origin = jnp.log(x) - jnp.log1p(-x)
    logit = origin + side * width * steps.astype(dtype)

    def log_density(logit):
        return -alpha * jax.nn.softplus(-logit) - beta * jax.nn.softplus(logit)

    density = jnp.exp(log_density(logit) - log_density(origin))
    terms = (-jax.nn.softplus(-logit) - mean_log) * density * weights.astype(dtype)
    return jnp.squeeze(x * side * width, -1) * jnp.sum(terms, axis=-1)
