"""Rules whose form depends on the platform that they are lowered for."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from jax import lax

Array = Any

_current: contextvars.ContextVar[tuple[str, ...]] = contextvars.ContextVar(
    "platforms", default=("cpu",)
)


@contextlib.contextmanager
def lowering_for(platforms: Sequence[str]) -> Iterator[None]:
    """Trace what is inside for platforms, by JAX's names: "cpu", "tpu", "cuda"."""
    token = _current.set(tuple(platforms))
    try:
        yield
    finally:
        _current.reset(token)


def by_platform(*operands: Array, default: Callable[..., Any], **forms: Callable[..., Any]) -> Any:
    """What the form of the platform gives for the operands, ``default`` where it has none.

    Other forms are not traced, unless a program is for several platforms at once.
    """
    platforms = _current.get()
    if len(platforms) == 1:
        return forms.get(platforms[0], default)(*operands)
    return lax.platform_dependent(*operands, default=default, **forms)
