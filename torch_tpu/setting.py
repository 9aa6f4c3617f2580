"""A value that a call sets at once and ``with`` restores, as torch.set_grad_enabled does."""

from collections.abc import Callable
from typing import Any

from torch.utils._contextlib import _DecoratorContextManager


class Setting(_DecoratorContextManager):
    """Subclasses say how their value is read (``get``) and written (``set``).

    Usable as a function, a context manager and a decorator.
    """

    get: Callable[[], Any]
    set: Callable[[Any], None]

    def __init__(self, value: Any) -> None:
        self.previous = self.get()
        self.value = value
        self.set(value)

    def __call__(self, function: Any) -> Any:
        self.set(self.previous)  # a decorator acts while its function runs, not before
        return super().__call__(function)

    def __enter__(self) -> None:
        self.set(self.value)

    def __exit__(self, *_: object) -> None:
        self.set(self.previous)

    def clone(self) -> "Setting":
        return type(self)(self.value)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.value!r})"
