"""Tensors with open sizes: how they lie in values that have the program's bounds."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Sequence

from torch_tpu.compiler.node import Dims
from torch_tpu.dynamo.graph import Size, TensorMeta
from torch_tpu.dynamo.symbols import evaluate, example


@dataclasses.dataclass(frozen=True)
class Padding:
    """How a tensor with open sizes lies in a longer value: its dims in memory order, packed.

    Where only the first of them is open the value has the bounds as its dims and the elements at
    its front; else it is flat.
    """

    order: tuple[int, ...]
    sizes: tuple[Size, ...]  # in memory order

    @functools.cached_property
    def leads(self) -> bool:
        """Whether only the first dimension is open, but for dimensions of one element before it."""
        rest = list(itertools.dropwhile(lambda size: size == 1, self.sizes))
        return bool(rest) and all(isinstance(size, int) for size in rest[1:])

    def dims(self, bounds: Sequence[int]) -> Dims:
        """The value's dims, given the sizes' bounds in memory order."""
        return tuple(bounds) if self.leads else (math.prod(bounds),)


def padding_of(meta: TensorMeta) -> Padding:
    """A tensor's place in a padded value, told from its strides at some sizes."""
    strides = evaluate(meta.strides, example(meta))
    order = tuple(sorted(range(len(strides)), key=lambda dim: -strides[dim]))
    return Padding(order, tuple(meta.sizes[dim] for dim in order))


def is_packed(meta: TensorMeta) -> bool:
    """Whether its elements lie without gaps, so that any view of it is one of the value, too."""
    sizes = example(meta)
    return evaluate(meta.strides, sizes) == evaluate(packed(meta).strides, sizes)


def packed(meta: TensorMeta) -> TensorMeta:
    """The same dims in the same order in memory, without gaps."""
    strides: dict[int, Size] = {}
    stride: Size = 1
    for dim in reversed(padding_of(meta).order):
        strides[dim] = stride
        size = meta.sizes[dim]
        if isinstance(size, int) and isinstance(stride, int):
            stride = size * stride
        else:
            stride = f"({size})*({stride})"
    return dataclasses.replace(meta, strides=tuple(strides[dim] for dim in range(len(strides))))
