"""What a function of torch.tpu is to torch.compile, said without importing Dynamo.

The decorators of torch.compiler import it, which takes longer than importing torch_tpu. Dynamo
itself only looks for an attribute of the function.
"""

from collections.abc import Callable
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])


def assumed_constant(function: Function) -> Function:
    """As torch.compiler.assume_constant_result: called while a graph is traced, not in it."""
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return function
