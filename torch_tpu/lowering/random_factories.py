"""New random tensors: the draw that fills one in eager mode, with the same numbers.

Captured graphs alone name these ops; in eager mode PyTorch makes an empty tensor and fills it.
"""

import torch

from torch_tpu.lowering import random
from torch_tpu.lowering.factories import empty, empty_like
from torch_tpu.lowering.registry import lowering

aten = torch.ops.aten


def _register(new, alike, fill):
    """The rules of an op that makes a tensor of a size, and of one that makes it like another."""

    @lowering(new)
    def of_size(size, *, generator, **options):
        return fill(empty(size, **options), generator=generator)

    @lowering(alike)
    def of_shape(self, *, generator, **options):
        return fill(empty_like(self, **options), generator=generator)


_register(aten.rand.default, aten.rand_like.default, random.uniform)
_register(aten.randn.default, aten.randn_like.default, random.normal_functional)


@lowering(aten.randint.default, runtime=("high",))
def randint(high, size, **options):
    return randint_low(0, high, size, **options)


@lowering(aten.randint.low, runtime=("low", "high"))
def randint_low(low, high, size, *, dtype=torch.int64, generator, **options):
    if not isinstance(dtype, torch.dtype):  # the schema's default is PyTorch's number for it
        dtype = torch.int64
    return random.random_from(empty(size, dtype=dtype), low, high, generator=generator)


@lowering(aten.randint_like.default, runtime=("high",))
def randint_like(self, high, **options):
    return randint_like_low(self, 0, high, **options)


@lowering(aten.randint_like.low_dtype, runtime=("low", "high"))
def randint_like_low(self, low, high, *, generator, **options):
    return random.random_from(empty_like(self, **options), low, high, generator=generator)


@lowering(aten.normal.float_float)
def normal_of_size(mean, std, size, *, generator, **options):
    return random.normal_functional(empty(size, **options), mean, std, generator=generator)
