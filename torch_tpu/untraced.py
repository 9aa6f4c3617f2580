"""Functions that Dynamo leaves alone, though eager ops call them while its frames run."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from torch._C._dynamo.eval_frame import _FrameAction, _FrameExecStrategy, set_code_exec_strategy

Function = TypeVar("Function", bound=Callable[..., object])

_SKIP = _FrameExecStrategy(_FrameAction.SKIP, _FrameAction.SKIP)  # the frame and what it calls


def untraced(function: Function) -> Function:
    """As torch._dynamo.disable, without importing torch._dynamo."""
    set_code_exec_strategy(function.__code__, _SKIP)
    return function
