"""One directory of entries: a folder per namespace, a file per program.

Nothing is handled here: what goes wrong is raised as Untrusted, Damaged or OSError.
"""

import contextlib
import os
import re
import secrets
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from torch_tpu.compiler.cache import entry as entries
from torch_tpu.compiler.cache import trust
from torch_tpu.compiler.cache.entry import Damaged, Entry, Header

_NAMESPACE = re.compile(r"\w+-[0-9a-f]{32}")
_ENTRY = re.compile(r"[0-9a-f]{64}\.entry")
# Writers' unfinished files and locks, left behind by processes that were killed.
_LEFTOVER = re.compile(r"[0-9a-f]{64}\.([0-9a-f]{16}\.partial|lock)")
_LOCKS = "locks"
_STAMP = "last-prune"
DAY = 24 * 3600.0


@dataclass(frozen=True)
class Stored:
    """A file of the directory; ``used`` is when it was last read or written."""

    path: Path
    size: int
    used: float


@dataclass(frozen=True)
class Removed:
    entries: int
    bytes: int


class Directory:
    """The entries under ``root``, which need not exist.

    A ``shared`` one is never created together with its parents (a file system that is not
    mounted would be hidden by what is written under its mount point), and what is written to it
    is on its disk before others can see it.
    """

    def __init__(self, root: Path, shared: bool = False) -> None:
        self.root = root
        self.shared = shared

    def check(self) -> None:
        """Raises Untrusted or OSError where entries must not or can't be read."""
        trust.check_directory(self.root)

    def path(self, namespace: str, identity: bytes) -> Path:
        return self.root / namespace / f"{identity.hex()}.entry"

    def lock(self, identity: bytes) -> Path:
        """The file to lock while a program is compiled; its folder is made where it can be."""
        self._make_folder(self.root / _LOCKS)
        return self.root / _LOCKS / f"{identity.hex()}.lock"

    def holds(self, namespace: str, identity: bytes) -> bool:
        return os.path.lexists(self.path(namespace, identity))

    def read(self, namespace: str, identity: bytes) -> Entry | None:
        """The entry, or None where there is none."""
        return _read(self.path(namespace, identity), identity)

    def touch(self, namespace: str, identity: bytes) -> None:
        """Notes that the entry was used just now."""
        os.utime(self.path(namespace, identity))

    def write(self, namespace: str, entry: Entry) -> int:
        """Stores the entry in one step; returns the size of its file."""
        path = self.path(namespace, entry.identity)
        content = entries.pieces(entry)
        try:
            self._place(path, content)
        except FileNotFoundError:  # the folder was empty, and another process tidied it away
            self._place(path, content)
        return sum(map(len, content))

    def _place(self, path: Path, content: list[bytes]) -> None:
        self._make_folder(path.parent)
        temporary = path.with_suffix(f".{secrets.token_hex(8)}.partial")
        try:
            self._fill(temporary, content)
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise

    def _fill(self, path: Path, content: list[bytes]) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        # An entry is as readable as the directory, and writable by its owner alone.
        descriptor = os.open(path, flags, 0o600 | self._mode() & 0o044)
        with os.fdopen(descriptor, "wb") as file:
            file.writelines(content)
            if self.shared:
                file.flush()
                os.fsync(descriptor)

    def _mode(self) -> int:
        return self.root.stat().st_mode & 0o777

    def make(self) -> None:
        """Makes the directory where there is none, for this user alone."""
        if not self.root.is_dir():
            if not self.shared:
                self.root.parent.mkdir(parents=True, exist_ok=True)
            self.root.mkdir(mode=0o700, exist_ok=True)

    def _make_folder(self, folder: Path) -> None:
        if not folder.is_dir():
            self.make()
            folder.mkdir(mode=0o700 | self._mode() & 0o055, exist_ok=True)

    def remove(self, namespace: str, identity: bytes) -> None:
        self.path(namespace, identity).unlink(missing_ok=True)

    def entries(self) -> Iterator[Stored]:
        """Every entry's file."""
        return self._walk(_ENTRY, self._namespaces())

    def _leftovers(self) -> Iterator[Stored]:
        return self._walk(_LEFTOVER, [*self._namespaces(), self.root / _LOCKS])

    def _namespaces(self) -> list[Path]:
        try:
            names = sorted(os.listdir(self.root))
        except FileNotFoundError:
            return []
        return [self.root / name for name in names if _NAMESPACE.fullmatch(name)]

    def _walk(self, pattern: re.Pattern[str], folders: list[Path]) -> Iterator[Stored]:
        for folder in folders:
            # Other processes may remove a folder or a file while this goes on.
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                yield from _files(folder, pattern)

    def header(self, stored: Stored) -> Header:
        """The header of an entry's file, unchecked but for its form."""
        with trust.open_file(stored.path) as file:
            return entries.read_header(file, stored.size)

    def facts(self) -> dict[str, dict[str, str]]:
        """What each namespace was made of, by its name; of namespaces that hold an entry."""
        found: dict[str, dict[str, str]] = {}
        for stored in self.entries():
            if stored.path.parent.name not in found:
                with contextlib.suppress(Damaged, trust.Untrusted, OSError):
                    found[stored.path.parent.name] = self.header(stored).facts
        return found

    def verify(self) -> Iterator[tuple[Stored, str | None]]:
        """Reads every entry in full; gives each with what is wrong with it, or None."""
        for stored in self.entries():
            try:
                _read(stored.path, bytes.fromhex(stored.path.stem))
            except (Damaged, trust.Untrusted, OSError) as error:
                yield stored, str(error)
            else:
                yield stored, None

    def prune(self, limit: int) -> Removed:
        """Removes the entries used longest ago, until the rest have at most ``limit`` bytes.

        Also what killed writers left behind a day ago or earlier.
        """
        now = time.time()
        self._stamp()
        for stored in self._leftovers():
            if not _renewed(stored, now) and stored.used < now - DAY:
                stored.path.unlink(missing_ok=True)
        found = sorted(self.entries(), key=lambda stored: stored.used)
        excess = sum(stored.size for stored in found) - limit
        removed = Removed(0, 0)
        for stored in found:
            _renewed(stored, now)
            if removed.bytes < excess:
                stored.path.unlink(missing_ok=True)
                removed = Removed(removed.entries + 1, removed.bytes + stored.size)
        self._remove_empty()
        return removed

    def clear(self) -> Removed:
        """Removes every entry and whatever else the cache put here, and nothing else."""
        removed = self.prune(0)
        for stored in self._leftovers():
            stored.path.unlink(missing_ok=True)
        (self.root / _STAMP).unlink(missing_ok=True)
        self._remove_empty()
        return removed

    def seconds_since_prune(self) -> float:
        """Infinite where it never happened, or the clock has been set back since."""
        try:
            age = time.time() - (self.root / _STAMP).stat().st_mtime
        except OSError:
            return float("inf")
        return age if age >= 0 else float("inf")

    def _stamp(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            (self.root / _STAMP).touch(mode=0o600)

    def _remove_empty(self) -> None:
        for folder in [*self._namespaces(), self.root / _LOCKS]:
            with contextlib.suppress(OSError):
                folder.rmdir()


def _files(folder: Path, pattern: re.Pattern[str]) -> Iterator[Stored]:
    with os.scandir(folder) as files:
        for file in files:
            if pattern.fullmatch(file.name) and not file.is_dir(follow_symlinks=False):
                with contextlib.suppress(FileNotFoundError):
                    status = file.stat(follow_symlinks=False)
                    yield Stored(Path(file.path), status.st_size, status.st_mtime)


def _read(path: Path, identity: bytes) -> Entry | None:
    try:
        with trust.open_file(path) as file:
            return entries.read(file, os.fstat(file.fileno()).st_size, identity)
    except FileNotFoundError:
        return None


def _renewed(stored: Stored, now: float) -> bool:
    """Whether the file's time was in the future, and is now the present.

    A clock that was ahead would else keep the file for as long as it was ahead.
    """
    if stored.used <= now:
        return False
    with contextlib.suppress(OSError):
        os.utime(stored.path, (now, now), follow_symlinks=False)
    return True
