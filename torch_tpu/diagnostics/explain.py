"""Why fused mode ran what it ran: each flush, whether its program existed, and if not, why."""

from __future__ import annotations

import atexit
import collections
import dataclasses
import os
import sys

from torch_tpu import _C, environment
from torch_tpu.diagnostics import flushes
from torch_tpu.diagnostics.flushes import Flush

_MOST_ROWS = 50


@dataclasses.dataclass
class Report:
    """The flushes of a block, in order; ``str`` of it is the table."""

    flushes: list[Flush] = dataclasses.field(default_factory=list)

    def summary(self) -> str:
        """Flushes by reason; hits, misses and programs compiled."""
        reasons = collections.Counter(flush.reason for flush in self.flushes)
        found = collections.Counter(flush.outcome for flush in self.flushes if flush.hit)
        misses = sum(flush.miss for flush in self.flushes)
        compiled = sum(flush.compiles for flush in self.flushes)
        ops = sum(flush.ops for flush in self.flushes)
        by_reason = ", ".join(f"{count:,} {reason}" for reason, count in reasons.most_common())
        return (
            f"{ops:,} ops in {_count(len(self.flushes), 'flush', 'flushes')}: {by_reason}\n"
            f"{_count(found.total(), 'hit')} ({found[flushes.FOUND]:,} in memory, "
            f"{found[flushes.LOADED]:,} on disk), {_count(misses, 'miss', 'misses')}; "
            f"{_count(compiled, 'program')} compiled"
        )

    def __str__(self) -> str:
        if not self.flushes:
            return f"torch_tpu: nothing was fused (eager mode: {_mode()})"
        return "\n".join(["torch_tpu: what fused mode ran", *_table(self.flushes), self.summary()])


class explain:
    """Records every flush of fused mode in a block, and prints a table on standard error after it.

    ``with explain() as report:`` gives a :class:`Report`, whose ``flushes`` is complete after the
    block. ``quiet`` prints nothing. Ops that are still waiting at the end of the block are part of
    no flush yet. Blocks may be nested; each sees the flushes of all threads.
    """

    def __init__(self, *, quiet: bool = False) -> None:
        self.quiet = quiet
        self.report = Report()

    def __enter__(self) -> Report:
        flushes.start(self._read)
        return self.report

    def __exit__(self, *_: object) -> None:
        flushes.stop(self._read)
        if not self.quiet:
            print(self.report, file=sys.stderr)

    def _read(self, flush: Flush) -> None:
        self.report.flushes.append(flush)


def apply_environment() -> None:
    """Follows the whole process where TORCH_TPU_EXPLAIN or TORCH_TRACE asks for it."""
    if environment.read("TORCH_TPU_EXPLAIN"):
        explained = explain(quiet=True)
        report = explained.__enter__()
        atexit.register(_print_at_exit, explained, report)
    if os.environ.get("TORCH_TRACE"):
        flushes.start(_trace)
        atexit.register(flushes.deliver)


def _print_at_exit(explained: explain, report: Report) -> None:
    explained.__exit__()
    if report.flushes or _C.is_initialized():  # a child process may have had no use for the device
        print(report, file=sys.stderr)


def _trace(flush: Flush) -> None:
    """One artifact of PyTorch's structured trace, which tlparse shows."""
    from torch._logging._internal import trace_structured

    trace_structured(
        "artifact",
        metadata_fn=lambda: {"name": "torch_tpu_flush", "encoding": "json"},
        payload_fn=lambda: dataclasses.asdict(flush),
        expect_trace_id=False,
    )


def _table(all_flushes: list[Flush]) -> list[str]:
    """Lines of a table; flushes that are alike share a row, in the order of their first."""
    counts = collections.Counter(all_flushes)
    shown = list(counts)[:_MOST_ROWS]
    head = ("times", "why", "ops", "program", "kept", "where")
    rows = [_row(flush, counts[flush]) for flush in shown]
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    lines = [_line(head, widths)]
    for flush, row in zip(shown, rows, strict=True):
        lines.append(_line(row, widths))
        if flush.difference:
            lines.append(" " * (widths[0] + 2) + f"new: {_shortened(flush.difference)}")
    if len(counts) > len(shown):
        rest = sum(counts.values()) - sum(counts[flush] for flush in shown)
        lines.append(f"... and {_count(rest, 'flush', 'flushes')} of other kinds")
    return lines


def _row(flush: Flush, times: int) -> tuple[str, ...]:
    kept = f"{flush.kept:,} ({environment.format_size(flush.bytes)})"
    where = _shortened(flush.where) or "(autograd)"
    return f"{times:,}", flush.reason, f"{flush.ops:,}", flush.outcome, kept, where


def _line(cells: tuple[str, ...], widths: list[int]) -> str:
    """Numbers to the right, words to the left."""
    padded = [
        cell.rjust(width) if place in (0, 2) else cell.ljust(width)
        for place, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]
    return "  ".join(padded).rstrip()


def _shortened(text: str) -> str:
    """With paths from the current directory on."""
    return text.replace(os.getcwd() + os.sep, "")


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def _mode() -> str:
    from torch_tpu.accelerator import modes

    return modes.get_eager_mode().value
