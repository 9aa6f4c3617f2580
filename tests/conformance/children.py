"""Entries in child processes: one that dies, or takes too long over an entry, costs that entry."""

from __future__ import annotations

import faulthandler
import multiprocessing
import signal
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import wait
from typing import Any

SECONDS = 240  # an entry that takes longer has failed

Row = dict[str, Any]
Work = Callable[[Any], Row]

# What a child needs is imported before it is forked; the device is first used in the child.
_FORK = multiprocessing.get_context("fork")


class Child:
    """A process that works through places, one after the other."""

    def __init__(self, work: Work, places: list[Any]) -> None:
        self.places = places
        self.done = 0
        self.began = time.monotonic()
        self.rows, sender = _FORK.Pipe(duplex=False)
        self.process = _FORK.Process(target=_work_through, args=(work, places, sender), daemon=True)
        self.process.start()
        sender.close()

    def row(self) -> Row | None:
        """The next row, None where the process has ended."""
        try:
            row = self.rows.recv()
        except EOFError:
            return None
        self.done += 1
        self.began = time.monotonic()
        return row

    @property
    def left(self) -> list[Any]:
        return self.places[self.done :]

    @property
    def is_late(self) -> bool:
        return time.monotonic() - self.began > SECONDS

    def end(self) -> str:
        """End the process; how it ended."""
        late = self.is_late
        if late:
            self.process.kill()
        self.process.join()
        self.rows.close()
        if late:
            return f"not done after {SECONDS} s"
        code = self.process.exitcode or 0
        return f"the process died of {signal.Signals(-code).name}" if code < 0 else f"exit {code}"


def _work_through(work: Work, places: list[Any], sender: Any) -> None:
    faulthandler.enable()
    for place in places:
        sender.send(work(place))
    sender.close()


def rows_of(
    work: Work, batches: list[list[Any]], failed: Callable[[Any, str], Row], processes: int
) -> Iterator[Row]:
    """What ``work`` says of every place, in any order; ``failed`` for those it did not survive.

    A batch is one process's, which gives back the memory that its programs took.
    """
    queue = list(reversed(batches))
    children: list[Child] = []
    while queue or children:
        while queue and len(children) < processes:
            children.append(Child(work, queue.pop()))
        ready = wait([child.rows for child in children], timeout=1)
        for child in list(children):
            row = child.row() if child.rows in ready else None
            if row is not None:
                yield row
            elif child.rows in ready or child.is_late:
                children.remove(child)
                ending = child.end()
                if child.left:
                    yield failed(child.left[0], ending)
                    queue.append(child.left[1:])
