"""What a device is: its name, its memory, what it computes in."""

import functools
import os
from dataclasses import dataclass

import torch

from torch_tpu import _C
from torch_tpu.accelerator.devices import DeviceLike, ordinal
from torch_tpu.tracing import assumed_constant

GIB = 1 << 30


@dataclass(frozen=True)
class Chip:
    """``capability``: generation, and 1 for the generation's larger chip."""

    name: str
    capability: tuple[int, int]
    device_memory: int  # bytes of HBM per device; a v7 chip has two devices
    bfloat16_flops: float  # peak per device


# By the words that plugins use for a device's kind.
_V4 = Chip("TPU v4", (4, 0), 32 * GIB, 275e12)
_V5E = Chip("TPU v5e", (5, 0), 16 * GIB, 197e12)
_V5P = Chip("TPU v5p", (5, 1), 95 * GIB, 459e12)
_V6E = Chip("TPU v6e", (6, 0), 32 * GIB, 918e12)
_V7 = Chip("TPU v7", (7, 0), 96 * GIB, 1153.5e12)
CHIPS = {
    "TPU v4": _V4,
    "TPU v5": _V5P,
    "TPU v5 lite": _V5E,
    "TPU v5e": _V5E,
    "TPU v5litepod": _V5E,
    "TPU v5p": _V5P,
    "TPU v6 lite": _V6E,
    "TPU v6e": _V6E,
    "TPU v7": _V7,
    "TPU v7x": _V7,
    "TPU7x": _V7,
}


@dataclass(frozen=True)
class DeviceProperties:
    """One device, as torch.cuda.get_device_properties describes a GPU."""

    name: str
    platform: str
    kind: str
    total_memory: int
    major: int
    minor: int
    platform_version: str


@assumed_constant
def get_device_name(device: DeviceLike = None) -> str:
    """``TPU v5e`` and the like; ``CPU (PJRT)`` on XLA's CPU plugin."""
    return get_device_properties(device).name


@assumed_constant
def get_device_properties(device: DeviceLike = None) -> DeviceProperties:
    _C.lazy_init()
    return _properties(ordinal(device))


@functools.cache
def _properties(number: int) -> DeviceProperties:
    kind, platform = _C.device_kind(number), _C.platform_name()
    chip = CHIPS.get(kind)
    major, minor = chip.capability if chip else (0, 0)
    return DeviceProperties(
        name="CPU (PJRT)" if platform == "cpu" else chip.name if chip else kind,
        platform=platform,
        kind=kind,
        total_memory=_total_memory(number, chip),
        major=major,
        minor=minor,
        platform_version=_C.platform_version(),
    )


def _total_memory(number: int, chip: Chip | None) -> int:
    limit = _C.memory_stats(number)["bytes_limit"]
    if limit > 0:
        return limit
    if chip is not None:
        return chip.device_memory
    # A device without a limit of its own lives in the host's memory.
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


@assumed_constant
def get_device_capability(device: DeviceLike = None) -> tuple[int, int]:
    """(TPU generation, variant): v5e (5, 0), v5p (5, 1); (0, 0) for what is not a TPU."""
    properties = get_device_properties(device)
    return properties.major, properties.minor


@assumed_constant
def is_bf16_supported(including_emulation: bool = True) -> bool:
    """True: TPUs compute in bfloat16, the other platforms emulate it."""
    return including_emulation or get_device_capability() != (0, 0)


@assumed_constant
def get_amp_supported_dtype() -> list[torch.dtype]:
    return [torch.bfloat16, torch.float16]
