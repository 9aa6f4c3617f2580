"""Eager modes and matmul precision: values that are set at once and restored by ``with``."""

import enum
import importlib
import os
from typing import Any, ClassVar, TypeVar

import torch

from torch_tpu import _C, environment
from torch_tpu.accelerator import fusion
from torch_tpu.precision import matmul_precision
from torch_tpu.setting import Setting

Word = TypeVar("Word", bound="_Word")


class _Word(enum.Enum):
    """An enum whose members are also known by their value's word and by their name."""

    @classmethod
    def of(cls: type[Word], value: Any) -> Word:
        if isinstance(value, cls):
            return value
        for member in cls:
            if isinstance(value, str) and value.lower() in (member.value, member.name.lower()):
                return member
        words = ", ".join(repr(member.value) for member in cls)
        raise ValueError(f"expected {cls.__name__} or one of {words}, but got {value!r}")


class EagerMode(_Word):
    """When ops run. All three give the same numbers, up to the rounding within fused programs."""

    DEFER_NEVER = "strict"
    DEFER_AND_FUSE = "fused"
    DEFER_NEVER_AND_LAUNCH_BLOCKING = "debug"


class Precision(_Word):
    """How float32 matrix products and convolutions are computed on the MXU."""

    DEFAULT = "default"
    HIGH = "high"
    HIGHEST = "highest"


class _WordSetting(Setting):
    """A setting whose value is a member of ``words``, or a text that names one."""

    words: ClassVar[type[_Word]]

    def __init__(self, value: Any) -> None:
        super().__init__(self.words.of(value))


# The extension's numbers.
_MODES = (
    EagerMode.DEFER_NEVER,
    EagerMode.DEFER_AND_FUSE,
    EagerMode.DEFER_NEVER_AND_LAUNCH_BLOCKING,
)


class set_eager_mode(_WordSetting):
    """Sets the eager mode: an :class:`EagerMode` or ``"strict"``, ``"fused"``, ``"debug"``.

    Acts at once; as a context manager it restores the mode that was set before.
    """

    words = EagerMode

    @staticmethod
    def get() -> EagerMode:
        return _MODES[_C.eager_mode()]

    @staticmethod
    def set(mode: EagerMode) -> None:
        if mode is EagerMode.DEFER_AND_FUSE:
            fusion.watch()
        _C.set_eager_mode(_MODES.index(mode))


get_eager_mode = set_eager_mode.get

_TORCH_PRECISION = {
    Precision.DEFAULT: "medium",
    Precision.HIGH: "high",
    Precision.HIGHEST: "highest",
}


class precision(_WordSetting):
    """Sets the precision of float32 matrix products: a :class:`Precision` or its word.

    The same setting as ``torch.set_float32_matmul_precision``; ``highest`` unless changed.
    """

    words = Precision

    @staticmethod
    def get() -> Precision:
        current = matmul_precision()
        return next(each for each, word in _TORCH_PRECISION.items() if word == current)

    @staticmethod
    def set(value: Precision) -> None:
        torch.set_float32_matmul_precision(_TORCH_PRECISION[value])


def environment_mode() -> EagerMode | None:
    """The mode that the environment asks for, if any."""
    word = environment.read("TORCH_TPU_EAGER_MODE")
    if word is not None:
        return EagerMode.of(word)
    if environment.read("TORCH_TPU_LAUNCH_BLOCKING"):
        return EagerMode.DEFER_NEVER_AND_LAUNCH_BLOCKING
    if environment.read("TORCH_TPU_DEFER_AND_FUSE") or environment.read("XLA_TPU_EAGER_FUSE_MODE"):
        return EagerMode.DEFER_AND_FUSE
    return None


def apply_environment() -> None:
    """Starts in what the environment asks for; what Python sets later wins."""
    _C.set_async_compile(environment.read("TORCH_TPU_ASYNC_COMPILE"))
    _C.set_max_programs(environment.read("TORCH_TPU_MAX_PROGRAMS"))
    mode = environment_mode()
    if mode is not None:
        set_eager_mode(mode)
    if environment.read("TORCH_TPU_NAN_CHECKS"):
        _C.set_nan_checks(True)
    if environment.read("TORCH_TPU_PRINT_OPS"):
        _C.set_op_printing(True)
    if environment.read("TORCH_TPU_EXPLAIN") or os.environ.get("TORCH_TRACE"):
        importlib.import_module("torch_tpu.diagnostics.explain").apply_environment()
