"""Loading from disk ahead of time: a program that followed another one will follow it again.

Large executables take a while to load. While one runs, a thread loads the one that came next in
the process that compiled them.
"""

from __future__ import annotations

import functools
import pickle
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from torch_tpu.compiler.cache import ProgramCache
from torch_tpu.compiler.node import Program

Load = Callable[[bytes], Program | None]


class Ahead:
    """Programs on their way from disk, by key."""

    def __init__(self, cache: ProgramCache, load: Load) -> None:
        self.cache = cache
        self.load = load
        self.coming: dict[bytes, Future[Program | None]] = {}
        self.previous: bytes | None = None

    def take(self, key: bytes) -> Program | None:
        """The program that was loaded ahead of time, once it is there."""
        coming = self.coming.pop(key, None)
        return None if coming is None else coming.result()

    def loaded(self, key: bytes) -> None:
        """A program was found on disk: load the one that followed it."""
        self.previous = key
        found = self.cache.get(_successor(key))
        if found is None:
            return
        following = pickle.loads(found[0])
        if following not in self.coming:
            try:
                self.coming[following] = _executor().submit(self.load, following)
            except RuntimeError:  # the interpreter is about to end
                return

    def compiled(self, key: bytes) -> None:
        """A program was compiled: remember what it followed."""
        if self.previous is not None:
            self.cache.put(_successor(self.previous), pickle.dumps(key), "what follows a program")
        self.previous = key


def _successor(key: bytes) -> bytes:
    return b"after:" + key


@functools.cache
def _executor() -> ThreadPoolExecutor:
    executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="torch_tpu-load")
    threading._register_atexit(lambda: executor.shutdown(wait=False, cancel_futures=True))
    return executor
