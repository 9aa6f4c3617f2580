"""The measured models in plain JAX under jit, written as carefully as one would for speed.

Linear layers are two-dimensional products: XLA:CPU is slow at others.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

Step = Callable[[], Any]

LAYERS, WIDTH, HEADS, LENGTH, VOCABULARY, BATCH = 4, 256, 4, 128, 1024, 8
HEAD_WIDTH = WIDTH // HEADS
STAGES = (32, 64, 128, 256)
_random = np.random.default_rng(0)


def _normal(*shape: int, scale: float = 1.0) -> jax.Array:
    return jnp.asarray(_random.standard_normal(shape) * scale, jnp.float32)


def _linear(ins: int, outs: int) -> dict[str, jax.Array]:
    return {"weight": _normal(outs, ins, scale=ins**-0.5), "bias": jnp.zeros(outs)}


def _norm(width: int) -> dict[str, jax.Array]:
    return {"weight": jnp.ones(width), "bias": jnp.zeros(width)}


def linear(p: dict[str, jax.Array], x: jax.Array) -> jax.Array:
    rows = lax.dot_general(x.reshape(-1, x.shape[-1]), p["weight"], (((1,), (1,)), ((), ())))
    return (rows + p.get("bias", 0)).reshape(*x.shape[:-1], -1)


def layer_norm(p: dict[str, jax.Array], x: jax.Array) -> jax.Array:
    centred = x - x.mean(-1, keepdims=True)
    scale = lax.rsqrt(jnp.square(centred).mean(-1, keepdims=True) + 1e-5)
    return centred * scale * p["weight"] + p["bias"]


gelu = functools.partial(jax.nn.gelu, approximate=False)


def gpt_weights() -> dict[str, Any]:
    blocks = [
        {
            "before_attention": _norm(WIDTH),
            "before_mlp": _norm(WIDTH),
            "qkv": _linear(WIDTH, 3 * WIDTH),
            "out": _linear(WIDTH, WIDTH),
            "up": _linear(WIDTH, 4 * WIDTH),
            "down": _linear(4 * WIDTH, WIDTH),
        }
        for _ in range(LAYERS)
    ]
    return {
        "token": _normal(VOCABULARY, WIDTH, scale=0.02),
        "position": _normal(LENGTH, WIDTH, scale=0.02),
        "blocks": blocks,
        "norm": _norm(WIDTH),
        "head": {"weight": _normal(VOCABULARY, WIDTH, scale=WIDTH**-0.5)},
    }


def attention(q: jax.Array, k: jax.Array, v: jax.Array, seen: jax.Array) -> jax.Array:
    scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) * HEAD_WIDTH**-0.5
    weights = jax.nn.softmax(jnp.where(seen, scores, -jnp.inf), axis=-1)
    return jnp.einsum("bhqk,bhkd->bhqd", weights, v)


def block(p: dict[str, Any], x: jax.Array, attend: Callable[..., jax.Array]) -> jax.Array:
    projected = jnp.split(linear(p["qkv"], layer_norm(p["before_attention"], x)), 3, axis=-1)
    heads = [u.reshape(*x.shape[:2], HEADS, HEAD_WIDTH).swapaxes(1, 2) for u in projected]
    x = x + linear(p["out"], attend(*heads).swapaxes(1, 2).reshape(x.shape))
    return x + linear(p["down"], gelu(linear(p["up"], layer_norm(p["before_mlp"], x))))


def cross_entropy(scores: jax.Array, target: jax.Array) -> jax.Array:
    logarithms = jax.nn.log_softmax(scores)
    return -jnp.take_along_axis(logarithms, target[..., None], axis=-1).mean()


def gpt_loss(p: dict[str, Any], state: None, tokens: jax.Array, target: jax.Array) -> Any:
    causal = jnp.tril(jnp.ones((LENGTH, LENGTH), bool))
    x = p["token"][tokens] + p["position"]
    for each in p["blocks"]:
        x = block(each, x, functools.partial(attention, seen=causal))
    return cross_entropy(linear(p["head"], layer_norm(p["norm"], x)), target), state


def gpt_batch() -> tuple[jax.Array, jax.Array]:
    tokens = jnp.asarray(_random.integers(0, VOCABULARY, (BATCH, LENGTH + 1)), jnp.int32)
    return tokens[:, :-1], tokens[:, 1:]


def _convolution(ins: int, outs: int, size: int) -> dict[str, jax.Array]:
    kernel = _normal(outs, ins, size, size, scale=(2 / (ins * size * size)) ** 0.5)
    return {"kernel": kernel, **_norm(outs)}


def resnet_weights() -> dict[str, Any]:
    ins, blocks = STAGES[0], []
    for outs in STAGES:
        for _ in range(2):
            p = {"first": _convolution(ins, outs, 3), "second": _convolution(outs, outs, 3)}
            if ins != outs:
                p["short"] = _convolution(ins, outs, 1)
            blocks.append(p)
            ins = outs
    return {"stem": _convolution(3, STAGES[0], 3), "blocks": blocks, "out": _linear(ins, 10)}


def _normalised_convolution(p: Any, state: list[Any], x: jax.Array, stride: int) -> jax.Array:
    """Convolution and batch normalisation; the running statistics go to the end of ``state``."""
    padding = [(p["kernel"].shape[-1] // 2,) * 2] * 2
    x = lax.conv_general_dilated(x, p["kernel"], (stride, stride), padding)
    mean = x.mean((0, 2, 3), keepdims=True)
    variance = jnp.square(x - mean).mean((0, 2, 3), keepdims=True)
    running_mean, running_variance = state.pop(0)
    count = x.size // x.shape[1]
    state.append(
        (
            0.9 * running_mean + 0.1 * mean.ravel(),
            0.9 * running_variance + 0.1 * variance.ravel() * count / (count - 1),
        )
    )
    scale, shift = (p[name][:, None, None] for name in ("weight", "bias"))
    return (x - mean) * lax.rsqrt(variance + 1e-5) * scale + shift


def resnet_loss(p: dict[str, Any], state: list[Any], x: jax.Array, target: jax.Array) -> Any:
    state = list(state)
    x = jax.nn.relu(_normalised_convolution(p["stem"], state, x, 1))
    for each in p["blocks"]:
        stride = 2 if "short" in each else 1
        inner = jax.nn.relu(_normalised_convolution(each["first"], state, x, stride))
        inner = _normalised_convolution(each["second"], state, inner, 1)
        if "short" in each:
            x = _normalised_convolution(each["short"], state, x, stride)
        x = jax.nn.relu(inner + x)
    return cross_entropy(linear(p["out"], x.mean((2, 3))), target), state


def resnet_state(p: dict[str, Any]) -> list[Any]:
    convolutions = [p["stem"]]
    for each in p["blocks"]:
        convolutions += [each[name] for name in ("first", "second", "short") if name in each]
    widths = [each["kernel"].shape[0] for each in convolutions]
    return [(jnp.zeros(width), jnp.ones(width)) for width in widths]


def mlp_loss(p: list[Any], state: None, x: jax.Array, target: jax.Array) -> Any:
    for each in p:
        x = gelu(linear(each, x))
    return jnp.square(x - target).mean(), state


def adamw(p: Any, gradients: Any, moments: Any, count: jax.Array) -> tuple[Any, Any]:
    rate, decay, beta1, beta2, eps = 1e-3, 0.01, 0.9, 0.999, 1e-8

    def move(p: jax.Array, g: jax.Array, m: jax.Array, v: jax.Array) -> tuple[jax.Array, ...]:
        m, v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g * g
        size = jnp.sqrt(v) / jnp.sqrt(1 - beta2**count) + eps
        return p * (1 - rate * decay) - rate / (1 - beta1**count) * m / size, m, v

    leaves, tree = jax.tree.flatten(p)
    moved = [move(*each) for each in zip(leaves, jax.tree.leaves(gradients), *moments, strict=True)]
    new, m, v = zip(*moved, strict=True)
    return jax.tree.unflatten(tree, new), (list(m), list(v))


def training(loss: Callable[..., Any], p: Any, batches: list[Any], state: Any = None) -> Step:
    @functools.partial(jax.jit, donate_argnums=(0, 1, 2))
    def update(p: Any, moments: Any, state: Any, count: jax.Array, x: Any, y: Any) -> Any:
        value = jax.value_and_grad(loss, has_aux=True)
        (result, state), gradients = value(p, state, x, y)
        return *adamw(p, gradients, moments, count), state, result

    zeros = [jnp.zeros_like(leaf) for leaf in jax.tree.leaves(p)]
    kept = [p, (zeros, [jnp.zeros_like(leaf) for leaf in zeros]), state]
    count = 0

    def step() -> Any:
        nonlocal count
        batch = batches[count % len(batches)]
        count += 1
        *kept[:], result = update(*kept, np.float32(count), *batch)
        return result

    return step


def gpt() -> Step:
    return training(gpt_loss, gpt_weights(), [gpt_batch() for _ in range(4)])


def resnet() -> Step:
    weights = resnet_weights()
    batches = [(_normal(16, 3, 32, 32), jnp.asarray(_random.integers(0, 10, 16))) for _ in "1234"]
    return training(resnet_loss, weights, batches, resnet_state(weights))


def mlp() -> Step:
    weights = [_linear(512, 512) for _ in range(4)]
    return training(mlp_loss, weights, [(_normal(64, 512), _normal(64, 512)) for _ in "1234"])


def addition() -> Step:
    x, y = _normal(16, 16), _normal(16, 16, scale=1e-3)
    add = jax.jit(lambda x, y: x + y)

    def step() -> Any:
        nonlocal x
        x = add(x, y)
        return x

    return step


def chain() -> Step:
    x, y, scale = _normal(256, 256), _normal(256, 256), _normal(256)
    flat = {"weight": jnp.ones(256), "bias": jnp.zeros(256)}

    @jax.jit
    def run(x: jax.Array, y: jax.Array, scale: jax.Array) -> jax.Array:
        for _ in range(5):
            x = gelu(layer_norm(flat, x) * scale + y)
            x = jax.nn.softmax(jnp.tanh(x - y) * 1.5)
        return x

    return lambda: run(x, y, scale)


def decode() -> Step:
    """64 greedy tokens from an empty cache, read at the end."""
    weights = gpt_weights()

    @functools.partial(jax.jit, donate_argnums=(3,))
    def next_token(p: Any, token: jax.Array, place: jax.Array, caches: list[Any]) -> Any:
        x = p["token"][token] + p["position"][place]
        new = []
        for each, cache in zip(p["blocks"], caches, strict=True):

            def attend(q: Any, k: Any, v: Any, cache: Any = cache) -> jax.Array:
                starts = (0, 0, place[0], 0)
                cache = lax.dynamic_update_slice(cache, jnp.concatenate([k, v]), starts)
                new.append(cache)
                return attention(q, cache[:1], cache[1:], jnp.arange(LENGTH) <= place)

            x = block(each, x, attend)
        token = linear(p["head"], layer_norm(p["norm"], x)).argmax(-1)
        return token, place + 1, new

    def step() -> Any:
        token, place = jnp.zeros((1, 1), jnp.int32), jnp.zeros(1, jnp.int32)
        caches = [jnp.zeros((2, HEADS, LENGTH, HEAD_WIDTH)) for _ in range(LAYERS)]
        tokens = []
        for _ in range(64):
            token, place, caches = next_token(weights, token, place, caches)
            tokens.append(token)
        return jnp.concatenate(tokens)

    return step


WORKLOADS: dict[str, Callable[[], Step]] = {
    each.__name__: each for each in (addition, chain, gpt, resnet, mlp, decode)
}


def seconds(step: Step, repeats: int) -> float:
    start = time.perf_counter()
    for _ in range(repeats):
        result = step()
    jax.block_until_ready(result)
    return (time.perf_counter() - start) / repeats
