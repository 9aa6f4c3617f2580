"""New random tensors: the draw that fills one in eager mode, with the same numbers.

Captured graphs alone name these ops; in eager mode PyTorch makes an empty tensor and fills it.
"""

import jax.numpy as jnp
import torch

from torch_tpu.lowering import dtypes, random
from torch_tpu.lowering.registry import lowering

aten = torch.ops.aten


def _to_fill(size, dtype):
    return jnp.zeros(size, dtypes.to_jax(dtype or torch.get_default_dtype()))


def _alike(tensor, dtype):
    return jnp.zeros(tensor.shape, tensor.dtype if dtype is None else dtypes.to_jax(dtype))


def _register(new, alike, fill):
    """The rules of an op that makes a tensor of a size, and of one that makes it like another."""

    @lowering(new)
    def of_size(size, *, dtype=None, layout=None, device=None, pin_memory=None, generator):
        return fill(_to_fill(size, dtype), generator=generator)

    @lowering(alike)
    def of_shape(
        self,
        *,
        dtype=None,
        layout=None,
        device=None,
        pin_memory=None,
        memory_format=None,
        generator,
    ):
        return fill(_alike(self, dtype), generator=generator)


_register(aten.rand.default, aten.rand_like.default, random.uniform)
_register(aten.randn.default, aten.randn_like.default, random.normal_functional)


@lowering(aten.randint.default, runtime=("high",))
def randint(high, size, **options):
    return randint_low(0, high, size, **options)


@lowering(aten.randint.low, runtime=("low", "high"))
def randint_low(
    low,
    high,
    size,
    *,
    dtype=torch.int64,
    layout=None,
    device=None,
    pin_memory=None,
    generator,
):
    if not isinstance(dtype, torch.dtype):  # the schema's default is PyTorch's number for it
        dtype = torch.int64
    return random.random_from(_to_fill(size, dtype), low, high, generator=generator)


@lowering(aten.randint_like.default, runtime=("high",))
def randint_like(self, high, **options):
    return randint_like_low(self, 0, high, **options)


@lowering(aten.randint_like.low_dtype, runtime=("low", "high"))
def randint_like_low(
    self,
    low,
    high,
    *,
    dtype=None,
    layout=None,
    device=None,
    pin_memory=None,
    memory_format=None,
    generator,
):
    return random.random_from(_alike(self, dtype), low, high, generator=generator)


@lowering(aten.normal.float_float)
def normal_of_size(
    mean, std, size, *, dtype=None, layout=None, device=None, pin_memory=None, generator
):
    return random.normal_functional(_to_fill(size, dtype), mean, std, generator=generator)
