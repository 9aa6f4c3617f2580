"""What it costs that an index out of range raises: ops with the check, and without it.

A lookup's program computes a code beside its result, which the next synchronisation reads. The
same lookup without it is made here by compiling while checks are not collected.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from unittest import mock

import measure
import torch
import torch.nn.functional as F

from torch_tpu.compiler import lower
from torch_tpu.lowering.checks import Checks

ROUNDS, REPEATS = 9, 200

Lookup = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]

OPS: dict[str, Lookup] = {
    "embedding": lambda table, rows: F.embedding(rows, table),
    "index": lambda table, rows: table[rows],
    "index_select": lambda table, rows: table.index_select(0, rows.flatten()),
    "gather": lambda table, rows: table.gather(0, rows.flatten()[:, None]),
}
SIZES = {"16 of 64 x 32": (64, 32, 16), "1024 of 1024 x 256": (1024, 256, 1024)}


@contextlib.contextmanager
def unchecked() -> Iterator[None]:
    """Programs compiled inside check no values."""

    @contextlib.contextmanager
    def collect_none() -> Iterator[Checks]:
        yield Checks()

    with mock.patch.object(lower, "collect_checks", collect_none):
        yield


def _case(op: Lookup, table: torch.Tensor, rows: torch.Tensor) -> measure.Case:
    op(table, rows)
    return lambda: measure.seconds(lambda: op(table, rows), torch.tpu.synchronize, REPEATS)


def _operands(height: int, width: int, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    rows = torch.arange(count) % height
    return torch.ones(height, width, device="tpu"), rows.to("tpu")


def main() -> None:
    figures = {}
    rows = [("", "checked", "unchecked", "ratio")]
    for label, (height, width, count) in SIZES.items():
        for name, op in OPS.items():
            # Another table height is another program, so neither finds the other's in the cache.
            checked = _case(op, *_operands(height, width, count))
            with unchecked():
                other = _case(op, *_operands(height + 1, width, count))
            times = measure.interleaved({"checked": checked, "unchecked": other}, ROUNDS)
            times = {kind: 1e6 * each for kind, each in times.items()}
            figures[f"{name}, {label}"] = times
            ratio = times["checked"] / times["unchecked"]
            rows.append((f"{name}, {label}", *times.values(), ratio))
    measure.report("index_checks", figures, rows, "us per op")


if __name__ == "__main__":
    # Programs without their checks must not outlive this process.
    with measure.fresh_cache():
        main()
