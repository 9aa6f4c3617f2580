"""The compile cache, as the compiler uses it: answers and executables by key."""

from __future__ import annotations

import functools
import hashlib
import pickle
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, TypeVar

from torch_tpu import _C, artifacts
from torch_tpu.compiler import ahead, cache, foreign
from torch_tpu.compiler.node import Program

Answer = TypeVar("Answer")


class Source(Protocol):
    """What a program is made from: recorded calls or a captured graph."""

    def key(self) -> bytes:
        """Equal for what is the same program; the same in every process."""

    @property
    def label(self) -> str:
        """What people read in lists and errors."""

    @property
    def is_large(self) -> bool:
        """Whether its executable is worth loading before it is asked for."""


def answer(key: bytes, label: str, make: Callable[[], Answer]) -> Answer:
    """A picklable answer: from the cache, else made and kept there."""
    if (found := _get(key)) is not None:
        try:
            return pickle.loads(found[0])
        except Exception as error:  # whatever unpickling raises, the answer can be made again
            _cache().reject(key, str(error))
    _cache().require(label, key)
    made = make()
    _put(key, pickle.dumps(made), label)
    return made


def program(source: Source, make: Callable[[], Program] | None) -> Program | None:
    """A source's program: from the cache, else made and kept there; None without ``make``."""
    key = source.key()
    if (found := _find(key, source.is_large)) is not None or make is None:
        return found
    _cache().require(source.label, key)
    with _cache().compiling(key):
        if (found := _find(key)) is not None:  # another process was quicker
            return found
        made = make()
        content = (made.parameters, made.targets, made.checks, made.executable.serialize())
        _put(key, pickle.dumps(content), source.label)
        if source.is_large:
            _ahead().compiled(key)
    return made


def namespace() -> str:
    """What programs are compiled for and with, as one name: any difference is another."""
    current = _cache().namespace
    assert current is not None
    return current.name


def begin() -> None:
    """Start loading what the script will need first."""
    _ahead().begin()


def is_on() -> bool:
    """Whether anything is kept on disk."""
    return _cache().mode != "off"


def must_not_compile() -> bool:
    """Whether a program that the cache lacks is an error."""
    return _cache().mode == "require"


def _find(key: bytes, large: bool = False) -> Program | None:
    found = _ahead().take(key) or _load(key)
    if found is None:
        return None
    loaded, tier = found
    _C.count(f"{tier}_hits", 1)
    if large:
        _ahead().found(key)
    return loaded


def _load(key: bytes) -> tuple[Program, str] | None:
    """A program on disk and the tier that it was found in."""
    if (found := _get(key)) is None:
        return None
    payload, tier = found
    try:
        parameters, targets, checks, serialized = pickle.loads(payload)
        foreign.register(targets)
        return Program(_C.deserialize(serialized), parameters, targets, checks), tier
    except Exception as error:  # whatever it is, the program can be compiled again
        _cache().reject(key, str(error))
        return None


def adopt(namespace: str, key: bytes, payload: bytes, label: str) -> None:
    """Keep an entry that came from elsewhere; one for another target or version is dropped."""
    current = _cache().namespace
    if current is not None and current.name == namespace:
        _cache().put(key, payload, label)


# What starts the keys of torch.compile's graphs, whose entries PyTorch's artifacts include.
_OF_GRAPHS = (b"graph", b"exact:")


def _get(key: bytes) -> tuple[bytes, str] | None:
    found = _cache().get(key)
    if found is not None and key.startswith(_OF_GRAPHS):
        artifacts.record(namespace(), key, found[0], "torch.compile")
    return found


def _put(key: bytes, payload: bytes, label: str) -> None:
    _cache().put(key, payload, label)
    if key.startswith(_OF_GRAPHS):
        artifacts.record(namespace(), key, payload, label)


def _ahead() -> ahead.Ahead[tuple[Program, str]]:
    return _tiers()[1]


def _cache() -> cache.ProgramCache:
    return _tiers()[0]


# Two threads may ask first: the loading one and the user's.
_making = threading.RLock()


def _tiers() -> tuple[cache.ProgramCache, ahead.Ahead[tuple[Program, str]]]:
    with _making:
        return _made_once()


@functools.cache
def _made_once() -> tuple[cache.ProgramCache, ahead.Ahead[tuple[Program, str]]]:
    current = cache.current()
    current.set_namespace(
        cache.namespace(
            _C.platform_name(),
            _C.platform_version(),
            _C.device_kind(0),
            Path(_C.plugin_path()),
            extension=hashlib.sha256(Path(_C.__file__).read_bytes()).hexdigest()[:32],
        )
    )
    return current, ahead.Ahead(current, lambda key: _load(key))
