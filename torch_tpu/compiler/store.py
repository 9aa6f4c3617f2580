"""The compile cache, as the compiler uses it: answers and executables by key."""

from __future__ import annotations

import functools
import hashlib
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from torch_tpu import _C
from torch_tpu.compiler import cache, foreign
from torch_tpu.compiler.ahead import Ahead
from torch_tpu.compiler.node import Program
from torch_tpu.compiler.trace import Trace

Answer = TypeVar("Answer")


def answer(key: bytes, label: str, make: Callable[[], Answer]) -> Answer:
    """A picklable answer: from the cache, else made and kept there."""
    if (found := _cache().get(key)) is not None:
        try:
            return pickle.loads(found[0])
        except Exception as error:  # whatever unpickling raises, the answer can be made again
            _cache().reject(key, str(error))
    _cache().require(label, key)
    made = make()
    _cache().put(key, pickle.dumps(made), label)
    return made


def program(trace: Trace, make: Callable[[], Program] | None) -> Program | None:
    """A trace's program: from the cache, else made and kept there; None without ``make``."""
    key = trace.key()
    large = len(trace.steps) > 1
    if (found := _ahead().take(key) or _load(key)) is not None:
        if large:
            _ahead().loaded(key)
        return found
    if make is None:
        return None
    _cache().require(trace.label, key)
    with _cache().compiling(key):
        if (found := _load(key)) is not None:  # another process was quicker
            return found
        made = make()
        content = (made.parameters, made.targets, made.executable.serialize())
        _cache().put(key, pickle.dumps(content), trace.label)
        if large:
            _ahead().compiled(key)
    return made


def must_not_compile() -> bool:
    """Whether a program that the cache lacks is an error."""
    return _cache().mode == "require"


@functools.cache
def _ahead() -> Ahead:
    return Ahead(_cache(), lambda key: _load(key))


def _load(key: bytes) -> Program | None:
    if (found := _cache().get(key)) is None:
        return None
    payload, tier = found
    try:
        parameters, targets, serialized = pickle.loads(payload)
        foreign.register(targets)
        executable = _C.deserialize(serialized)
    except Exception as error:  # whatever it is, the program can be compiled again
        _cache().reject(key, str(error))
        return None
    _C.count(f"{tier}_hits", 1)
    return Program(executable, parameters, targets)


@functools.cache
def _cache() -> cache.ProgramCache:
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
    return current
