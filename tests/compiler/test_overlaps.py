"""A part of an array that is written from another part of it gets the old elements."""

import jax
import jax.numpy as jnp
import pytest
import torch
from jax import lax

from torch_tpu.compiler.overlaps import reads_what_it_writes

N = 12  # a length that no other test's programs have


def shifted(x):
    x = x.cumsum(0)
    x[1:] = x[:-1].clone()
    return x


def turned(x):
    x = x.cumsum(0)
    x[:4].copy_(x[:4].flip(0))
    return x


def gathered(x):
    x = x[torch.arange(N, device=x.device) // 2]
    x.view(3, 4)[1:].copy_(x.view(3, 4)[:-1].clone())
    return x


def computed_twice(x):
    y = x.cumsum(0)
    y[1:] = x.cumsum(0)[:-1]
    return y


def copied_by_index(x):
    x = x.cumsum(0)
    return x.index_copy_(0, torch.tensor([0], device=x.device), x[3:4] + x[:1])


CASES = [shifted, turned, gathered, computed_twice, copied_by_index]


@pytest.mark.parametrize("function", CASES)
@pytest.mark.parametrize("way", ["strict", "fused", "compiled"])
def test_it_is_written_with_what_was_there_before(function, way):
    x = torch.arange(1.0, N + 1)
    run = torch.compile(function, fullgraph=True) if way == "compiled" else function
    with torch.tpu.set_eager_mode("strict" if way == "compiled" else way):
        assert run(x.to("tpu")).cpu().equal(function(x))


def write(old, update, place=0):
    return lax.dynamic_update_slice(old, update, (place,))


def shift(x):
    return write(x, x[:-1], 1)


FUNCTIONS = {
    "a result from an equal one": (lambda x: write(jnp.cumsum(x), jnp.cumsum(x)[1:]), True),
    "a result from itself": (lambda x: (lambda c: write(c, c[1:]))(jnp.cumsum(x)), True),
    "through a reshape": (lambda x: (lambda c: write(c.ravel(), c[0, 1:]))(jnp.exp(x[None])), True),
    "inside a function": (lambda x: jax.jit(write)(*(lambda c: (c, c[1:]))(jnp.exp(x))), True),
    "in a loop": (lambda x: lax.fori_loop(0, 2, lambda _, c: shift(jnp.exp(c)), x), True),
    "in a branch": (lambda x: lax.cond(x[0] > 0, lambda c: shift(jnp.exp(c)), jnp.exp, x), True),
    "an argument": (lambda x: write(x, x[1:]), False),
    "from elsewhere": (lambda x: write(jnp.exp(x), x[1:]), False),
    "from a product": (lambda x: (lambda c: write(c, c[1:] @ jnp.eye(3)))(jnp.exp(x)), False),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_programs_that_read_what_they_write_are_told_from_others(name):
    function, reads = FUNCTIONS[name]
    assert reads_what_it_writes(jax.jit(function).trace(jnp.ones(4)).jaxpr) == reads
