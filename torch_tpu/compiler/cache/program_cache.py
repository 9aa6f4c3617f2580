"""What the compiler asks for programs that are not in memory: the tiers, in one interface."""

import contextlib
import dataclasses
import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

from torch_tpu.compiler.cache.entry import Entry, Header, identify
from torch_tpu.compiler.cache.explanation import why_missing
from torch_tpu.compiler.cache.fingerprint import Namespace
from torch_tpu.compiler.cache.tiers import Tier


@dataclasses.dataclass
class ProgramCache:
    """Compiled programs by key, within one namespace, in the tiers "disk" and "shared".

    No method raises for trouble with files: it is warned about, and the program is compiled. In
    mode "require" a miss is an error, which the caller asks for with ``require``.
    """

    mode: str = "rw"
    tiers: tuple[Tier, ...] = ()
    namespace: Namespace | None = None
    _counts: Counter[str] = dataclasses.field(default_factory=Counter)
    _counting: Any = dataclasses.field(default_factory=threading.Lock)
    _compiling: set[bytes] = dataclasses.field(default_factory=set)
    _rejected: dict[bytes, str] = dataclasses.field(default_factory=dict)

    def set_namespace(self, namespace: Namespace) -> None:
        """What programs are compiled for from here on; comes before the first get."""
        self.namespace = namespace

    def within(self, namespace: Namespace) -> "ProgramCache":
        """The same tiers and counts, for programs of another target."""
        return dataclasses.replace(self, namespace=namespace)

    def get(self, key: bytes) -> tuple[bytes, str] | None:
        """The payload stored for ``key`` and the tier it was found in, "disk" or "shared"."""
        namespace, identity = self._locate(key)
        for place, tier in enumerate(self.tiers):
            entry = tier.read(namespace.name, identity)
            if entry is not None:
                self._count("hits", f"{tier.name}_hits")
                for nearer in self.tiers[:place]:
                    nearer.write(namespace.name, entry)
                return entry.payload, tier.name
        if identity not in self._compiling:  # else this miss has been counted
            self._count("misses")
        return None

    def put(self, key: bytes, payload: bytes, label: str) -> None:
        """Stores ``payload`` in every tier. ``label`` is the program's name for people."""
        namespace, identity = self._locate(key)
        entry = Entry(identity, Header(label, int(time.time()), namespace.facts), payload)
        if any([tier.write(namespace.name, entry) for tier in self.tiers]):
            self._count("writes")

    @contextlib.contextmanager
    def compiling(self, key: bytes) -> Iterator[None]:
        """Lets one process of this host at a time compile the program of ``key``.

        Ask for the key again inside: another process may have compiled it meanwhile.
        """
        _, identity = self._locate(key)
        lockable = [tier for tier in self.tiers if tier.writable and not tier.directory.shared]
        self._compiling.add(identity)
        try:
            with lockable[0].lock(identity) if lockable else contextlib.nullcontext():
                yield
        finally:
            self._compiling.discard(identity)

    def require(self, label: str, key: bytes) -> None:
        """To be called on a miss: RuntimeError in mode "require", which forbids compiling."""
        if self.mode != "require":
            return
        namespace, identity = self._locate(key)
        directories = [tier.directory for tier in self.tiers]
        reason = self._rejected.get(identity) or why_missing(namespace, directories)
        raise RuntimeError(
            f"TORCH_TPU_CACHE=require, and the compile cache has no program for {label} "
            f"({namespace.name}/{identity.hex()}): {reason}"
        )

    def reject(self, key: bytes, reason: str) -> None:
        """Reports that the payload of ``key`` can't be loaded, and removes it."""
        namespace, identity = self._locate(key)
        self._rejected[identity] = f"the one that was found can't be loaded: {reason}"
        for tier in self.tiers:
            if tier.directory.holds(namespace.name, identity):
                tier.reject(namespace.name, identity, reason)

    def statistics(self) -> dict[str, int]:
        """Entries and bytes on disk; this process's hits, misses, writes and rejected entries.

        ``hits`` are the sum of ``disk_hits`` and ``shared_hits``; ``writes`` counts programs.
        """
        sizes = [size for tier in self.tiers if tier.name == "disk" for size in tier.sizes()]
        counted = ("hits", "disk_hits", "shared_hits", "misses", "writes")
        return {
            "entries": len(sizes),
            "bytes": sum(sizes),
            **{name: self._counts[name] for name in counted},
            "rejected": sum(tier.rejected for tier in self.tiers),
        }

    def _locate(self, key: bytes) -> tuple[Namespace, bytes]:
        if self.namespace is None:
            raise RuntimeError("the compile cache has no namespace: call set_namespace first")
        return self.namespace, identify(self.namespace.name, key)

    def _count(self, *names: str) -> None:
        with self._counting:
            self._counts.update(names)
