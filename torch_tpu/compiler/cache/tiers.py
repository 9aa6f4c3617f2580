"""A directory as one tier of the cache: its troubles cost a compile and nothing else."""

import contextlib
import time
import warnings
from typing import Any

from torch_tpu.compiler.cache import locks
from torch_tpu.compiler.cache.directory import Directory
from torch_tpu.compiler.cache.entry import Damaged, Entry
from torch_tpu.compiler.cache.trust import Untrusted

# A write that failed is likely to fail again; after so many seconds it is tried again.
_PAUSE_AFTER_FAILURE = 60.0
# A directory that some process pruned so recently is not walked through by one that starts.
_PRUNED_RECENTLY = 600.0
# A process prunes again once it has written this part of the limit ...
_PRUNE_EVERY = 1 / 16
# ... down to this part of it.
_PRUNE_TO = 0.9


class Tier:
    """Reads and writes entries of one directory; what goes wrong is warned about, once each.

    ``limit`` is the size in bytes to keep the directory at, None to leave that to its owner.
    """

    def __init__(
        self, name: str, directory: Directory, writable: bool = True, limit: int | None = None
    ) -> None:
        self.name = name
        self.directory = directory
        self.writable = writable
        self.limit = limit
        self.rejected = 0
        self._trusted = False
        self._warned: set[Any] = set()
        self._write_again = 0.0
        self._written: int | None = None

    def read(self, namespace: str, identity: bytes) -> Entry | None:
        """The entry, or None where there is none that may be loaded."""
        try:
            self._check()
            entry = self.directory.read(namespace, identity)
        except Damaged as damage:
            self.reject(namespace, identity, f"it {damage}")
            return None
        except FileNotFoundError as error:
            if self.directory.shared and not self.writable:  # else writing makes it, or warns
                self._warn_of(error)
            return None
        except (Untrusted, OSError) as error:
            self._warn_of(error)
            return None
        if entry is not None and self.writable:
            with contextlib.suppress(OSError):
                self.directory.touch(namespace, identity)
        return entry

    def write(self, namespace: str, entry: Entry) -> bool:
        """Whether the entry was stored."""
        if not self.writable or time.monotonic() < self._write_again:
            return False
        if self.limit is not None and len(entry.payload) > self.limit:
            return False
        try:
            self._prepare()
            size = self.directory.write(namespace, entry)
            self._prune_now_and_then(size)
        except (Untrusted, OSError) as error:
            self._write_again = time.monotonic() + _PAUSE_AFTER_FAILURE
            self._warn_of(error)
            return False
        return True

    def reject(self, namespace: str, identity: bytes, reason: str) -> None:
        """Reports an entry that can't be used, and makes room for its successor."""
        self.rejected += 1
        self._warn("entry", f"{self.directory.path(namespace, identity)} is skipped: {reason}")
        if self.writable:
            with contextlib.suppress(OSError):
                self.directory.remove(namespace, identity)

    def sizes(self) -> list[int]:
        """The size of each entry's file; nothing where the directory can't be read."""
        try:
            return [stored.size for stored in self.directory.entries()]
        except OSError:
            return []

    def lock(self, identity: bytes) -> contextlib.AbstractContextManager[Any]:
        """Held while a program is compiled; no lock where there can be none."""
        with contextlib.suppress(Untrusted, OSError):
            self._prepare()
            return locks.holding(self.directory.lock(identity))
        return contextlib.nullcontext()

    def _check(self) -> None:
        if not self._trusted:
            self.directory.check()
            self._trusted = True

    def _prepare(self) -> None:
        try:
            self._check()
        except FileNotFoundError:
            self.directory.make()
            self._check()

    def _prune_now_and_then(self, size: int) -> None:
        """Keeps the directory at its limit without walking through it at every write."""
        if self.limit is None:
            return
        if self._written is None:
            due = self.directory.seconds_since_prune() > _PRUNED_RECENTLY
            self._written = size
        else:
            self._written += size
            due = self._written > self.limit * _PRUNE_EVERY
        if due:
            self._written = 0
            self.directory.prune(int(self.limit * _PRUNE_TO))

    def _warn_of(self, error: Exception) -> None:
        cause = error.errno if isinstance(error, OSError) else type(error)
        self._warn(cause, f"{self.directory.root} can't be used: {error}")

    def _warn(self, cause: Any, message: str) -> None:
        if cause not in self._warned:
            self._warned.add(cause)
            warnings.warn(
                f"compile cache ({self.name}): {message}. Programs are compiled instead, and this "
                "is said once; see docs/compile-cache.md, Troubleshooting",
                stacklevel=2,
            )
