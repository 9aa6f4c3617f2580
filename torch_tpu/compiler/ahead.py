"""Loading from disk ahead of time: a script that ran before will need the same programs again.

Large executables take a while to load. A thread loads the one that the script began with as soon as
there is a device, and while a program runs, the one that followed it last time.
"""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

from torch_tpu import workers
from torch_tpu.compiler.cache import ProgramCache

Loaded = TypeVar("Loaded")


class Ahead(Generic[Loaded]):
    """What ``load`` gives for keys that are likely to be asked for."""

    def __init__(self, cache: ProgramCache, load: Callable[[bytes], Loaded | None]) -> None:
        self.cache = cache
        self.load = load
        self.coming: dict[bytes, Future[Loaded | None]] = {}
        self.previous = b"start:" + os.path.abspath(sys.argv[0]).encode() if sys.argv else b""

    def take(self, key: bytes) -> Loaded | None:
        """What was loaded ahead of time for a key, once it is there."""
        coming = self.coming.pop(key, None)
        return None if coming is None else coming.result()

    def begin(self) -> None:
        """Load what came first in the last process that ran this script."""
        self._load_after(self.previous)

    def found(self, key: bytes) -> None:
        """A program was found on disk: load the one that followed it."""
        self.previous = key
        self._load_after(key)

    def compiled(self, key: bytes) -> None:
        """A program was compiled: remember what it followed."""
        self.cache.put(_after(self.previous), pickle.dumps(key), "which program follows another")
        self.previous = key

    def _load_after(self, key: bytes) -> None:
        found = self.cache.get(_after(key))
        if found is None:
            return
        following = pickle.loads(found[0])
        if following not in self.coming:
            coming = workers.submit("load", lambda: self.load(following))
            if coming is not None:
                self.coming[following] = coming


def _after(key: bytes) -> bytes:
    return b"after:" + key
