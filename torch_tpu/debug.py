"""Switches for finding what went wrong: NaN checks and op printing."""

from typing import ClassVar

from torch_tpu import _C, environment
from torch_tpu.setting import Setting


class _Switch(Setting):
    """The extension only takes a switch's state, so what it was is kept here."""

    state: ClassVar[bool]

    def __init__(self, enabled: bool = True) -> None:
        super().__init__(bool(enabled))

    @classmethod
    def get(cls) -> bool:
        return cls.state

    @classmethod
    def set(cls, enabled: bool) -> None:
        cls.apply(enabled)
        cls.state = enabled

    @staticmethod
    def apply(enabled: bool) -> None:
        raise NotImplementedError


class nan_checks(_Switch):
    """In debug mode, raises at the first op whose result holds a NaN or an infinity."""

    state = environment.read("TORCH_TPU_NAN_CHECKS")

    @staticmethod
    def apply(enabled: bool) -> None:
        _C.set_nan_checks(enabled)


class print_ops(_Switch):
    """In debug mode, prints each op and the shapes of its results on standard error."""

    state = environment.read("TORCH_TPU_PRINT_OPS")

    @staticmethod
    def apply(enabled: bool) -> None:
        _C.set_op_printing(enabled)
