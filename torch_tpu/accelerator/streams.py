"""Streams and events: torch's own classes, with a tpu as their default device."""

from typing import Any

import torch

from torch_tpu.accelerator.devices import DeviceLike, device, ordinal


class Stream(torch.Stream):
    """A stream of a tpu device. Work of two streams may overlap unless data connects it."""

    def __new__(cls, device: DeviceLike = None, priority: int = 0, **identity: Any) -> "Stream":
        if identity:  # stream_id, device_index, device_type: a stream that exists already
            return super().__new__(cls, priority=priority, **identity)
        return super().__new__(cls, torch.device("tpu", ordinal(device)), priority=priority)

    def __repr__(self) -> str:
        return f"torch.tpu.Stream(device={self.device}, stream_id={self.stream_id})"


class _EventType(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, torch.Event) and instance.device.type == "tpu"


class Event(torch.Event, metaclass=_EventType):
    """A moment in a device's work, to wait for or to take the time between.

    Makes plain torch.Event objects: torch's own methods refuse subclasses as arguments.
    """

    def __new__(
        cls, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False
    ) -> Any:
        if interprocess:
            raise NotImplementedError("events between processes are not supported on tpu")
        return torch.Event("tpu", enable_timing=enable_timing, blocking=blocking)


def _as_tpu_stream(stream: torch.Stream) -> Stream:
    return Stream(
        stream_id=stream.stream_id,
        device_index=stream.device_index,
        device_type=stream.device_type,
    )


def current_stream(device: DeviceLike = None) -> Stream:
    return _as_tpu_stream(torch.accelerator.current_stream(ordinal(device)))


def default_stream(device: DeviceLike = None) -> Stream:
    """The stream that work goes to unless another is set."""
    number = ordinal(device)
    device_type = current_stream(number).device_type
    return Stream(stream_id=0, device_index=number, device_type=device_type)


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
        self.device.__exit__()


def stream(stream: torch.Stream | None) -> StreamContext:
    return StreamContext(stream)
