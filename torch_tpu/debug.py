"""Switches for finding what went wrong: NaN checks and op printing."""

from collections.abc import Callable

from torch_tpu import _C, environment
from torch_tpu.setting import Setting


class _Switch(Setting):
    """The extension only takes a switch's state, so what it was is kept here."""

    state: bool
    apply: Callable[[bool], None]

    def __init__(self, enabled: bool = True) -> None:
        super().__init__(bool(enabled))

    @classmethod
    def get(cls) -> bool:
        return cls.state

    @classmethod
    def set(cls, enabled: bool) -> None:
        cls.apply(enabled)
        cls.state = enabled


class nan_checks(_Switch):
    """Checks every op's result for NaN and raises at the first, naming the op."""

    state = environment.read("TORCH_TPU_NAN_CHECKS")
    apply = _C.set_nan_checks


class print_ops(_Switch):
    """Prints every op on standard error as it is called."""

    state = environment.read("TORCH_TPU_PRINT_OPS")
    apply = _C.set_op_printing
