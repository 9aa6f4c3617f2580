"""Which platform a rule is traced for, where one of them needs another form."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator

_current = contextvars.ContextVar("platform", default="cpu")


def platform() -> str:
    """JAX's name of the platform that is lowered for: "cpu", "tpu" or "cuda"."""
    return _current.get()


@contextlib.contextmanager
def lowering_for(name: str) -> Iterator[None]:
    """Trace what is inside for a platform."""
    token = _current.set(name)
    try:
        yield
    finally:
        _current.reset(token)
