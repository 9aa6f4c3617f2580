"""What the recorder hands over on a miss, and what it gets back."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch

Dims = tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Slot:
    """A storage that a call touches: its value's dims and dtype, or what they would be.

    ``filled`` is false for a storage that was never written; it reads as zeros and is no input.
    """

    dims: Dims
    dtype: torch.dtype
    filled: bool


@dataclasses.dataclass(frozen=True)
class Edge:
    """A tensor argument: a view of a slot, in elements of ``dtype``."""

    slot: int
    sizes: Dims
    strides: Dims
    offset: int
    dtype: torch.dtype
    conj: bool = False
    neg: bool = False


@dataclasses.dataclass(frozen=True)
class Number:
    """A number that enters the program at run time: a place in its integers or its floats.

    ``dtype`` is that of a 0-dim CPU tensor, None for a Python number.
    """

    kind: str  # bool, int, float, complex
    place: int
    dtype: torch.dtype | None
    wrapped: bool


@dataclasses.dataclass(frozen=True)
class Node:
    """One recorded call; ``arguments`` follow the schema, defaults filled in."""

    op: str
    arguments: list[Any]
    slots: list[Slot]
    ints: int
    floats: int

    @property
    def overload(self) -> torch._ops.OpOverload:
        return overload_of(self.op)

    @property
    def is_random(self) -> bool:
        """Whether seed and offset follow the node's integers."""
        return torch.Tag.nondeterministic_seeded in self.overload.tags


@dataclasses.dataclass(frozen=True)
class Program:
    """An executable and where its parameters come from: inputs, or "ints" and "floats".

    ``targets`` names the families of custom calls that it makes, for foreign.register. ``checks``
    are a captured graph's: exception, message, file and line of each, in the order of their codes.
    """

    executable: Any
    parameters: list[int | str]
    targets: tuple[str, ...] = ()
    checks: tuple[tuple[str, str, str, int], ...] = ()


@dataclasses.dataclass(frozen=True)
class Created:
    """A tensor that a call makes. -1 in ``sizes`` is the length that the values decide."""

    sizes: Dims
    strides: Dims
    dtype: torch.dtype
    value_dims: Dims = ()


@dataclasses.dataclass(frozen=True)
class Write:
    """A slot that takes a new value of these dims."""

    slot: int
    dims: Dims
    dtype: torch.dtype


@dataclasses.dataclass(frozen=True)
class Resize:
    """An ``out=`` argument (a path of places) that takes another size first."""

    argument: tuple[int, ...]
    sizes: Dims
    strides: Dims


@dataclasses.dataclass
class Plan:
    """What a call does: csrc/eager/plan.h says what each part means to the recorder.

    ``returns`` holds, for each return, ("new", place), ("argument", place), ("number", integer), a
    list of these, or None for an undefined tensor. ``node``, ``metadata``, ``bound`` and
    ``precision`` are what a program of the call is traced from.
    """

    node: Node
    metadata: Any
    bound: int | None
    precision: str
    created: list[Created]
    writes: list[Write]
    resizes: list[Resize]
    returns: list[Any]
    checks: list[tuple[str, str]]
    asks_size: bool = False

    # Of this process: not stored.
    key: bytes = b""
    function: Any = None
    size_program: Program | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "key": b"", "function": None, "size_program": None}


def overload_of(op: str) -> torch._ops.OpOverload:
    """The overload of a full name: "aten::add.Tensor", "aten::relu"."""
    namespace, name = op.split("::")
    name, _, overload = name.partition(".")
    return getattr(getattr(getattr(torch.ops, namespace), name), overload or "default")
