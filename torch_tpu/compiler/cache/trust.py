"""Which directories and files may be read: loading a cached program runs it."""

import errno
import os
import pwd
import stat
from pathlib import Path
from typing import BinaryIO

from torch_tpu.compiler.cache.entry import Damaged


class Untrusted(Exception):
    """A directory or file that someone else could have filled; the message says who and how."""


def check_directory(root: Path) -> None:
    """Untrusted where others can put files into ``root``; OSError where it can't be looked at."""
    path = root.resolve()
    status = path.stat()
    if not stat.S_ISDIR(status.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
    _check(path, status, stat.S_IWOTH)
    above = path.parent.stat()
    # Whoever can write to the parent can put another directory in this one's place, unless the
    # sticky bit keeps names with their owners, as in /tmp.
    if above.st_mode & stat.S_IWOTH and not above.st_mode & stat.S_ISVTX:
        raise Untrusted(f"{path.parent}, which holds it, can be written by every user")


def open_file(path: Path) -> BinaryIO:
    """The open file, after a look at who owns what was opened.

    Raises Untrusted, Damaged for what is not a regular file, and OSError.
    """
    if path.is_symlink():
        raise Damaged("is a symbolic link")
    # Without O_NONBLOCK, opening a pipe waits for its other end.
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    file = os.fdopen(descriptor, "rb")
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise Damaged("is not a regular file")
        _check(path, status, stat.S_IWOTH | stat.S_IWGRP)
    except BaseException:
        file.close()
        raise
    return file


def _check(path: Path, status: os.stat_result, writable_by: int) -> None:
    if status.st_uid not in (os.geteuid(), 0):
        trusted = " or ".join({_user(os.geteuid()): 0, "root": 0})
        raise Untrusted(f"{path} belongs to {_user(status.st_uid)}, not to {trusted}")
    if status.st_mode & writable_by:
        raise Untrusted(f"{path} can be written by other users (mode {status.st_mode & 0o777:o})")


def _user(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"user {number}"
