"""Which devices there are and which one is current."""

from typing import Any

import torch

from torch_tpu import _C, runtime

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


def device_count() -> int:
    """The number of devices; 0 where there is none. Does not load the plugin, never raises."""
    if is_initialized():
        return _C.device_count()
    try:
        return runtime.expected_device_count()
    except Exception:
        return 0


def is_available() -> bool:
    """Whether a plugin is installed that offers a device. Does not load it, never raises."""
    return device_count() > 0


def is_initialized() -> bool:
    """Whether the plugin is loaded and its client made; False in a forked child."""
    return _C.is_initialized() and not _C.is_in_bad_fork()


def init() -> None:
    """Loads the plugin now rather than when the device is first used."""
    _C.lazy_init()


def current_device() -> int:
    return _C.current_device()


def set_device(device: DeviceLike) -> None:
    """Makes a device current for this thread. A negative number changes nothing."""
    number = ordinal(device)
    if number >= 0:
        _C.set_device(number)


def synchronize(device: DeviceLike = None) -> None:
    """Waits for everything started on a device, and raises what failed there."""
    _C.synchronize(ordinal(device))


class device:
    """Context manager that changes the current device. None or a negative number: no change."""

    def __init__(self, device: DeviceLike) -> None:
        self.index = -1 if device is None else ordinal(device)
        self.previous = -1

    def __enter__(self) -> "device":
        if self.index >= 0:
            self.previous = _C.exchange_device(self.index)
        return self

    def __exit__(self, *_: object) -> None:
        if self.previous >= 0:
            _C.set_device(self.previous)


class device_of(device):
    """Context manager that makes a tensor's device current; one that is not on tpu: no change."""

    def __init__(self, tensor: Any) -> None:
        super().__init__(tensor.device if tensor.device.type == "tpu" else None)
