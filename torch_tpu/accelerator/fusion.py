"""What fused mode needs to know of Python: optimizer steps and the garbage collector's runs."""

from __future__ import annotations

import functools
import gc
from typing import Any

from torch.optim.optimizer import register_optimizer_step_post_hook

from torch_tpu import _C
from torch_tpu.tracing import not_traced


@functools.cache
def watch() -> None:
    """Start watching, once per process."""
    register_optimizer_step_post_hook(_after_step)
    gc.callbacks.append(_around_collection)


@not_traced
def _after_step(*_: Any) -> None:
    if _C.is_initialized():
        _C.flush(-1)


@not_traced
def _around_collection(phase: str, _: dict[str, int]) -> None:
    _C.set_collecting(phase == "start")
