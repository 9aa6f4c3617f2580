"""A lock between the processes of one host, so that they compile each program once.

A lock only saves work: where there can be none (a directory that can't be written to, a file system
without locks, a holder that takes too long) its block runs without it.
"""

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

LONGEST_WAIT = 600.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.001, 0.02


@contextlib.contextmanager
def holding(path: Path, longest_wait: float = LONGEST_WAIT) -> Iterator[bool]:
    """Runs its block under the lock of ``path``; the value says whether it is held.

    The kernel frees the lock of a process that dies.
    """
    descriptor = _acquire(path, longest_wait)
    try:
        yield descriptor is not None
    finally:
        if descriptor is not None:
            _release(path, descriptor)


def _acquire(path: Path, longest_wait: float) -> int | None:
    deadline = time.monotonic() + longest_wait
    pause = _FIRST_PAUSE
    try:
        while (descriptor := _try(path)) is None:
            if time.monotonic() >= deadline:
                return None
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
    except OSError:
        return None
    return descriptor


def _try(path: Path) -> int | None:
    """The descriptor that holds the lock, or None while another one does."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path, flags, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # The last holder may have removed the file between the two calls.
        if os.path.samestat(os.fstat(descriptor), os.stat(path)):
            return descriptor
    except (BlockingIOError, FileNotFoundError):
        pass
    except BaseException:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None


def _release(path: Path, descriptor: int) -> None:
    # Closing alone would not do: a process forked meanwhile shares the descriptor and the lock.
    with contextlib.suppress(OSError):
        os.unlink(path)
    os.close(descriptor)
