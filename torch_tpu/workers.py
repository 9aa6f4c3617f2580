"""Threads for cold work: one per name, made when something is first handed to it."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Result = TypeVar("Result")


def submit(name: str, work: Callable[[], Result]) -> Future[Result] | None:
    """Run on the thread of that name; None where the interpreter is about to end."""
    try:
        return _worker(name).submit(work)
    except RuntimeError:
        return None


@functools.cache
def _worker(name: str) -> ThreadPoolExecutor:
    worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"torch_tpu-{name}")
    # A process that ends waits for what is in work, which may be for the disk, and no more.
    # Python's own hook would wait for all, and hooks run last in, first out.
    threading._register_atexit(lambda: worker.shutdown(wait=False, cancel_futures=True))
    return worker
