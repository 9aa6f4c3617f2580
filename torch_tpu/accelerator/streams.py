"""Streams and events: torch's own classes, with a tpu as their default device."""

from contextlib import AbstractContextManager
from typing import Any

import torch

from torch_tpu.accelerator.devices import DeviceLike, device, ordinal


class _TpuType(type):
    """Instances are those of torch's own class, the first base, that belong to a tpu."""

    def __instancecheck__(cls, instance: Any) -> bool:
        base: Any = cls.__mro__[1]
        return isinstance(instance, base) and instance.device.type == "tpu"


class Stream(torch.Stream, metaclass=_TpuType):
    """A stream of a tpu device. Work of two streams may overlap unless data connects it.

    Makes plain torch.Stream objects, which Dynamo knows.
    """

    def __new__(cls, device: DeviceLike = None, priority: int = 0, **identity: Any) -> Any:
        if identity:  # stream_id, device_index, device_type: a stream that exists already
            return torch.Stream(priority=priority, **identity)
        return torch.Stream(f"tpu:{ordinal(device)}", priority=priority)


class Event(torch.Event, metaclass=_TpuType):
    """A moment in a device's work, to wait for or to take the time between.

    Makes plain torch.Event objects: torch's own methods refuse subclasses as arguments.
    """

    def __new__(
        cls, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False
    ) -> Any:
        if interprocess:
            raise NotImplementedError("events between processes are not supported on tpu")
        return torch.Event("tpu", enable_timing=enable_timing, blocking=blocking)


def current_stream(device: DeviceLike = None) -> torch.Stream:
    return torch.accelerator.current_stream(ordinal(device))


def default_stream(device: DeviceLike = None) -> torch.Stream:
    """The stream that work goes to unless another is set."""
    number = ordinal(device)
    device_type = current_stream(number).device_type
    return torch.Stream(stream_id=0, device_index=number, device_type=device_type)


def set_stream(stream: torch.Stream) -> None:
    """Makes a stream, and its device, current. None changes nothing."""
    if stream is not None:
        torch.accelerator.set_stream(stream)


class StreamContext:
    """Makes a stream and its device current inside ``with``. None changes nothing."""

    def __init__(self, stream: torch.Stream | None) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        if self.stream is None:
            return
        self.device = device(self.stream.device)
        self.device.__enter__()
        self.previous = current_stream()
        set_stream(self.stream)

    def __exit__(self, *_: object) -> None:
        if self.stream is None:
            return
        set_stream(self.previous)
        self.device.__exit__(None, None, None)


def stream(stream: torch.Stream | None) -> AbstractContextManager:
    if torch.compiler.is_dynamo_compiling() and stream is not None:
        return stream  # which Dynamo can enter, but eagerly can't be entered twice
    return StreamContext(stream)
