"""Runs an op's bounded form beside CPU PyTorch: the same arguments, at bounds and at true sizes.

A case is a function that builds a call's arguments from an ``Arguments``: ``s`` and ``t`` are
sizes, ``tensor`` makes a tensor. It is called with true sizes (for PyTorch), with bounds (for the
shapes) and with traced sizes, each time asking for the same tensors in the same order.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import torch
from torch.testing import assert_close
from torch.utils._pytree import tree_leaves

from tests.lowering.shadow import ONCE
from torch_tpu.lowering import bounded, dtypes, sizes

BOUNDS = (16, 8)
TRUE_SIZES = ((11, 5), (16, 8), (1, 1), (3, 8))


class Arguments:
    """Makes random tensors of the true sizes and keeps them."""

    def __init__(self, s: Any, t: Any):
        self.s, self.t = s, t
        self.made: list[torch.Tensor] = []
        self.generator = torch.Generator().manual_seed(0)

    def tensor(self, *shape: Any) -> Any:
        return self._keep(torch.randn(shape, generator=self.generator))

    def double(self, *shape: Any) -> Any:
        return self._keep(torch.randn(shape, generator=self.generator, dtype=torch.float64))

    def uniform(self, *shape: Any) -> Any:
        return self._keep(torch.rand(shape, generator=self.generator))

    def integers(self, shape: Any, below: Any, low: Any = 0) -> Any:
        return self._keep(torch.randint(low, max(below, low + 1), shape, generator=self.generator))

    def mask(self, *shape: Any) -> Any:
        return self._keep(torch.rand(shape, generator=self.generator) < 0.5)

    def distinct(self, size: Any) -> Any:
        return self._keep(torch.randperm(size, generator=self.generator))

    def computed(self, shape: Any, function: Callable[[], torch.Tensor]) -> Any:
        return self._keep(function())

    def _keep(self, tensor: torch.Tensor) -> torch.Tensor:
        self.made.append(tensor)
        return tensor


class _Shapes(Arguments):
    """Collects the shapes at the bounds."""

    def __init__(self) -> None:
        super().__init__(*BOUNDS)

    def computed(self, shape: Any, function: Any) -> Any:
        return self._keep(torch.empty(tuple(shape)))


class _Traced:
    """Hands out the program's inputs with their sizes declared."""

    def __init__(self, s: Any, t: Any, arrays: list[Any]):
        self.s, self.t = sizes.Size(BOUNDS[0], s), sizes.Size(BOUNDS[1], t)
        self.arrays = iter(arrays)

    def tensor(self, *shape: Any) -> Any:
        return sizes.sized(next(self.arrays), shape)

    double = uniform = mask = tensor

    def integers(self, shape: Any, below: Any, low: Any = 0) -> Any:
        return self.tensor(*shape)

    def distinct(self, size: Any) -> Any:
        return self.tensor(size)

    def computed(self, shape: Any, function: Any) -> Any:
        return self.tensor(*shape)


def _garbage(dtype: torch.dtype) -> Any:
    if dtype.is_floating_point or dtype.is_complex:
        return float("nan")
    return True if dtype == torch.bool else 2**30


def _padded(tensor: torch.Tensor, shape: Any) -> np.ndarray:
    whole = torch.full(tuple(shape), _garbage(tensor.dtype), dtype=tensor.dtype)
    whole[tuple(slice(0, n) for n in tensor.shape)] = tensor
    return whole.numpy()


@dataclasses.dataclass(frozen=True)
class Call:
    """A case of an op; ``reference`` gives what is expected of an op that the CPU doesn't have."""

    overload: Any
    case: Callable[[Any], tuple]
    reference: Callable[..., Any] | None = None

    def shapes(self) -> list[tuple[int, ...]]:
        """Those of its tensors, at the bounds."""
        shapes = _Shapes()
        self.case(shapes)
        return [tuple(each.shape) for each in shapes.made]

    def traced(self, s: Any, t: Any, arrays: list[Any]) -> tuple[list[Any], list[list[Any]]]:
        """Its results, and the sizes that are declared of each."""
        with sizes.bounded_trace():
            args, kwargs = _split(self.case(_Traced(s, t, arrays)))
            extra = {}
            if torch.Tag.nondeterministic_seeded in self.overload.tags:
                extra["generator"] = jax.random.key(0)
            assert bounded.serves(self.overload, args, kwargs)
            results = jax.tree.leaves(bounded.call(self.overload, args, kwargs, **extra))
            return results, [list(map(sizes.value, sizes.sizes_of(each))) for each in results]

    def expected(self, s: int, t: int) -> tuple[list[torch.Tensor], Any]:
        """Its tensors, and what PyTorch gives for them."""
        plain = Arguments(s, t)
        args, kwargs = _split(self.case(plain))
        return plain.made, (self.reference or self.overload)(*args, **kwargs)


def compare(calls: list[Call]) -> None:
    """Every result's true part equals PyTorch's for every combination of true sizes.

    All calls are one program, which takes less time than a program of each.
    """
    shapes = [call.shapes() for call in calls]

    @functools.partial(jax.jit, compiler_options=ONCE)
    def run(s: Any, t: Any, arrays: list[list[Any]]) -> list[Any]:
        return [call.traced(s, t, each) for call, each in zip(calls, arrays, strict=True)]

    with jax.enable_x64(True), jax.default_matmul_precision("highest"):
        for true in TRUE_SIZES:
            made, expected = zip(*(call.expected(*true) for call in calls), strict=True)
            inputs = [list(map(_padded, *each)) for each in zip(made, shapes, strict=True)]
            results = run(*map(np.int32, true), inputs)
            for call, want, (got, declared) in zip(calls, expected, results, strict=True):
                where = f"{call.overload} at sizes {true}"
                _assert_declared(got, declared, want, where)
                _assert_true_parts(got, want, where)


def _assert_declared(got: Any, declared: Any, expected: Any, where: str) -> None:
    for array, declaration, want in zip(got, declared, tree_leaves(expected), strict=False):
        if tuple(declaration) != array.shape:
            assert tuple(map(int, declaration)) == tuple(want.shape), where


def _split(made: tuple) -> tuple[tuple, dict[str, Any]]:
    if made and isinstance(made[-1], dict):
        return made[:-1], made[-1]
    return made, {}


def _assert_true_parts(got: Any, expected: Any, where: str) -> None:
    listed = [list(each) if isinstance(each, (tuple, list)) else [each] for each in (got, expected)]
    compared = 0
    for have, want in zip(*listed, strict=False):
        if not isinstance(want, torch.Tensor):
            continue
        cut = np.asarray(have)[tuple(slice(0, n) for n in want.shape)]
        assert cut.shape == tuple(want.shape), f"{where}: {have.shape} for {tuple(want.shape)}"
        cut = torch.from_numpy(np.array(cut, dtypes.to_jax(want.dtype)))
        assert_close(cut, want, equal_nan=True, msg=lambda m: f"{where}: {m}")
        compared += 1
    assert compared == sum(isinstance(leaf, torch.Tensor) for leaf in tree_leaves(expected))
