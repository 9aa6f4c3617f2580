"""The compile cache, as the compiler uses it: answers and executables by key."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import TypeVar

from torch_tpu.compiler.node import Program
from torch_tpu.compiler.trace import Trace

Answer = TypeVar("Answer")


def answer(key: bytes, label: str, make: Callable[[], Answer]) -> Answer:
    """A picklable answer: from the cache, else made and kept there."""
    return make()


def program(trace: Trace, make: Callable[[], Program] | None) -> Program | None:
    """A trace's program: from the cache, else made and kept there; None without ``make``."""
    return None if make is None else make()
