"""What Dynamo does with this package's functions, said without importing it.

The decorators of torch.compiler import Dynamo, which takes longer than importing torch_tpu.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import torch

Function = TypeVar("Function", bound=Callable[..., Any])

_frames = torch._C._dynamo.eval_frame
_SKIP = _frames._FrameAction.SKIP


def assumed_constant(function: Function) -> Function:
    """As torch.compiler.assume_constant_result: called while a graph is traced, not in it."""
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return function


def not_traced(function: Function) -> Function:
    """As torch.compiler.disable, for what Python calls by itself while Dynamo watches.

    What the extension calls needs none: csrc/python/untraced.h.
    """
    strategy = _frames._FrameExecStrategy(_SKIP, _SKIP)  # the function, and what it calls
    _frames.set_code_exec_strategy(function.__code__, strategy)
    return function
