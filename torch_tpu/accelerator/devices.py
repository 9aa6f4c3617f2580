"""Which devices there are and which one is current.

Written with torch.accelerator, which Dynamo can trace, where a compiled function may ask too.
"""

import contextlib
from contextlib import AbstractContextManager

import torch

from torch_tpu import _C, runtime
from torch_tpu.tracing import assumed_constant

DeviceLike = torch.device | str | int | None


def ordinal(device: DeviceLike = None) -> int:
    """The number of a device: torch.device, ``"tpu:1"`` or int; the current one for None."""
    if isinstance(device, str):
        device = torch.device(device)
    if isinstance(device, torch.device):
        if device.type != "tpu":
            raise ValueError(f"Expected a tpu device, but got: {device}")
        device = device.index
    return current_device() if device is None else int(device)


@assumed_constant
def device_count() -> int:
    """The number of devices; 0 where there is none. Does not load the plugin, never raises."""
    if is_initialized():
        return _C.device_count()
    try:
        return runtime.expected_device_count()
    except Exception:
        return 0


@assumed_constant
def is_available() -> bool:
    """Whether a plugin is installed that offers a device. Does not load it, never raises."""
    return device_count() > 0


@assumed_constant
def is_initialized() -> bool:
    """Whether the plugin is loaded and its client made; False in a forked child."""
    return _C.is_initialized() and not _C.is_in_bad_fork()


def init() -> None:
    """Loads the plugin now rather than when the device is first used."""
    _C.lazy_init()


def current_device() -> int:
    return torch.accelerator.current_device_index()


def set_device(device: DeviceLike) -> None:
    """Makes a device current for this thread. A negative number changes nothing."""
    number = ordinal(device)
    if number >= 0:
        _C.set_device(number)


def synchronize(device: DeviceLike = None) -> None:
    """Waits for everything started on a device, and raises what failed there."""
    torch.accelerator.synchronize(ordinal(device))


def device(device: DeviceLike) -> AbstractContextManager:
    """Context manager that changes the current device. None or a negative number: no change."""
    index = -1 if device is None else ordinal(device)
    return contextlib.nullcontext() if index < 0 else torch.accelerator.device_index(index)


def device_of(tensor: torch.Tensor) -> AbstractContextManager:
    """Context manager that makes a tensor's device current; one that is not on tpu: no change."""
    return device(tensor.device if tensor.device.type == "tpu" else None)
