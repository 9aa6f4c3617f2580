"""What fused mode ran, flush by flush, for everyone who wants to read it."""

from __future__ import annotations

import dataclasses
import functools
import threading
from collections.abc import Callable

from torch.optim.optimizer import register_optimizer_step_post_hook

from torch_tpu import _C
from torch_tpu.compiler.node import Plan
from torch_tpu.diagnostics import difference

# By the extension's numbers: FlushReason in csrc/device/runtime.h, Outcome in csrc/eager/explain.h.
REASONS = (
    "value read",
    "data-dependent shape",
    "op that runs alone",
    "synchronize",
    "event",
    "stream",
    "end of backward",
    "optimizer step",
    "long trace",
    "mode change",
)
FOUND = "found in memory"
LOADED = "found on disk"
COMPILED = "compiled"
COMPILING = "one by one, compiling in the background"
ONE_BY_ONE = "one by one"
NOT_NEEDED = "not run: no result is wanted"
WAITING = "one by one, still compiling"
CHURNING = "one by one, shapes change too often"
OUTCOMES = (FOUND, LOADED, COMPILED, COMPILING, ONE_BY_ONE, NOT_NEEDED, WAITING, CHURNING)


@dataclasses.dataclass(frozen=True)
class Flush:
    """One run of what was recorded.

    ``reason`` and ``outcome`` are words of REASONS and OUTCOMES. ``kept`` outputs of ``ops`` calls,
    of ``bytes`` together, could still be reached and so were written to memory. ``where`` is the
    Python line ("file:line") that asked for the flush, "" on autograd's threads. ``difference``
    says for a new program what tells it from the nearest earlier one, "" where none is near.
    """

    reason: str
    outcome: str
    ops: int
    kept: int
    bytes: int
    where: str
    difference: str

    @property
    def hit(self) -> bool:
        """Whether the program existed, in memory or on disk."""
        return self.outcome in (FOUND, LOADED)

    @property
    def miss(self) -> bool:
        """Whether it did not. One op alone needs no program of its own: neither hit nor miss."""
        return not self.hit and self.outcome != NOT_NEEDED and self.ops > 1

    @property
    def compiles(self) -> bool:
        """Whether a program was compiled for it, then or in the background."""
        return self.outcome in (COMPILED, COMPILING)


Reader = Callable[[Flush], None]

_readers: list[Reader] = []
_lock = threading.RLock()


def start(reader: Reader) -> None:
    """Gives every flush from now on to ``reader``: at optimizer steps, and when it stops."""
    with _lock:
        deliver()
        _readers.append(reader)
        _C.set_explaining(True)
    _deliver_after_steps()


def stop(reader: Reader) -> None:
    """Gives ``reader`` what is left; it gets nothing after that."""
    with _lock:
        deliver()
        _readers.remove(reader)
        _C.set_explaining(bool(_readers))


def deliver() -> None:
    """Gives the flushes since last time to all readers."""
    with _lock:
        for report in _C.take_flush_reports():
            flush = _flush_of(*report)
            for reader in _readers:
                reader(flush)


@functools.cache
def _deliver_after_steps() -> None:
    """Now and then, so that a run that is killed has told what it did, and memory stays flat."""
    register_optimizer_step_post_hook(lambda *_: deliver() if _readers else None)


def _flush_of(
    reason: int,
    outcome: int,
    ops: int,
    kept: int,
    size: int,
    where: str,
    place: int,
    now: Plan | None,
    before: Plan | None,
    compared: bool,
    op_site: str,
) -> Flush:
    differs = difference.between(place, before, now, op_site) if compared else ""
    return Flush(REASONS[reason], OUTCOMES[outcome], ops, kept, size, where, differs)
