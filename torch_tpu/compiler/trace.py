"""What a program is made from: recorded calls in order, and which of their outputs are wanted."""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Iterator

from torch_tpu.compiler import layout
from torch_tpu.compiler.node import Dims, Plan, Slot

UNFILLED = -1


@dataclasses.dataclass(frozen=True)
class Step:
    """One call. An edge per slot says where its value comes from.

    ``2 * i`` is the program's input i, ``2 * o + 1`` the trace's output o, ``UNFILLED`` a storage
    that was never written. The outputs of all steps are numbered through: a step's new tensors
    first, then the slots that it writes.
    """

    plan: Plan
    edges: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Trace:
    """Steps closed over their inputs; ``live`` outputs are kept, ``donated`` inputs may be reused.

    The integers and floats of all steps enter as one array each, in order. With ``asks_size`` the
    only step's length is the program's one output.
    """

    steps: list[Step]
    live: list[int]
    donated: list[int]
    ordinal: int
    asks_size: bool = False

    @classmethod
    def of_size(cls, plan: Plan, ordinal: int) -> Trace:
        """The program that finds the length which a call's values decide."""
        filled = [slot.filled for slot in plan.node.slots]
        edges = [2 * sum(filled[:place]) if here else UNFILLED for place, here in enumerate(filled)]
        return cls([Step(plan, tuple(edges))], [], [], ordinal, asks_size=True)

    @property
    def label(self) -> str:
        """What people read in lists and errors."""
        first = self.steps[0].plan.node.op
        if self.asks_size:
            return f"length of {first}"
        if len(self.steps) == 1:
            return first
        return f"{len(self.steps)} ops from {first} to {self.steps[-1].plan.node.op}"

    @property
    def is_large(self) -> bool:
        """Whether its executable is worth loading before it is asked for."""
        return len(self.steps) > 1

    def key(self) -> bytes:
        """Equal for traces that are the same program; the same in every process."""
        parts = [b"program", struct.pack("<?qq", self.asks_size, self.ordinal, len(self.steps))]
        known: dict[bytes, int] = {}
        for step in self.steps:
            key = step.plan.key
            if key not in known:
                known[key] = len(known)
                parts += [struct.pack("<q", len(key)), key]
            parts.append(_packed((known[key], *step.edges)))
        return b"".join([*parts, _packed(self.live), _packed(self.donated)])

    def inputs(self) -> list[Slot]:
        """The slot of each input, in order."""
        found: dict[int, Slot] = {}
        for step in self.steps:
            for edge, slot in zip(step.edges, step.plan.node.slots, strict=True):
                if edge >= 0 and edge % 2 == 0:
                    found.setdefault(edge // 2, slot)
        return [found[place] for place in range(len(found))]

    def outputs(self) -> Iterator[tuple[Dims, object]]:
        """The dims and dtype of every output, in order."""
        for step in self.steps:
            for created in step.plan.created:
                yield created.value_dims, created.dtype
            for write in step.plan.writes:
                yield write.dims, write.dtype

    def reusable(self) -> list[int]:
        """The donated inputs that a live output fits, one for one."""
        outputs = list(self.outputs())
        inputs = [(slot.dims, slot.dtype) for slot in self.inputs()]
        return layout.reusable(self.donated, inputs, [outputs[place] for place in self.live])


def _packed(numbers: tuple[int, ...] | list[int]) -> bytes:
    return struct.pack(f"<q{len(numbers)}q", len(numbers), *numbers)
