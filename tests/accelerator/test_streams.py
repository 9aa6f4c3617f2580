"""Streams and events: which is current, waiting, timing."""

import pytest
import torch


def test_default_and_current():
    assert torch.tpu.current_stream() == torch.tpu.default_stream()
    assert torch.tpu.current_stream().device == torch.device("tpu", 0)
    assert torch.tpu.default_stream(1).device == torch.device("tpu", 1)
    assert isinstance(torch.tpu.current_stream(), torch.tpu.Stream)


def test_stream_context():
    side = torch.tpu.Stream()
    assert isinstance(side, torch.Stream) and side != torch.tpu.default_stream()
    with torch.tpu.stream(side):
        assert torch.tpu.current_stream() == side
        x = torch.ones(4, device="tpu") + 1
    assert torch.tpu.current_stream() == torch.tpu.default_stream()
    torch.tpu.current_stream().wait_stream(side)
    assert x.sum().item() == 8
    with torch.tpu.stream(None):
        assert torch.tpu.current_stream() == torch.tpu.default_stream()


def test_stream_of_another_device():
    side = torch.tpu.Stream("tpu:1")
    with torch.tpu.stream(side):
        assert torch.tpu.current_device() == 1
        assert torch.tpu.current_stream() == side
    assert torch.tpu.current_device() == 0
    assert torch.tpu.current_stream(1) == torch.tpu.default_stream(1)


def test_set_stream():
    side = torch.tpu.Stream()
    torch.tpu.set_stream(side)
    try:
        assert torch.tpu.current_stream() == torch.accelerator.current_stream() == side
    finally:
        torch.tpu.set_stream(torch.tpu.default_stream())


def test_streams_synchronise():
    stream = torch.tpu.Stream()
    with torch.tpu.stream(stream):
        torch.ones(64, 64, device="tpu").matmul(torch.ones(64, 64, device="tpu"))
    stream.synchronize()
    assert stream.query()


def test_events_take_time():
    start, end = torch.tpu.Event(enable_timing=True), torch.tpu.Event(enable_timing=True)
    x = torch.ones(256, 256, device="tpu")
    start.record()
    for _ in range(10):
        x = (x @ x) * 1e-3
    end.record()
    end.synchronize()
    assert start.query() and end.query()
    assert 0 < start.elapsed_time(end) < 60_000


def test_events_order_streams():
    side, event = torch.tpu.Stream(), torch.tpu.Event()
    x = torch.ones(8, device="tpu") * 2
    torch.tpu.current_stream().record_event(event)
    side.wait_event(event)
    with torch.tpu.stream(side):
        y = x * 2
    side.synchronize()
    assert torch.equal(y.cpu(), torch.full((8,), 4.0))


def test_event_before_it_is_recorded():
    event = torch.tpu.Event(enable_timing=True)
    assert isinstance(event, torch.tpu.Event) and isinstance(event, torch.Event)
    assert not isinstance(torch.tpu.current_stream(), torch.tpu.Event)
    assert event.query()
    with pytest.raises(ValueError, match="recorded"):
        event.elapsed_time(torch.tpu.Event(enable_timing=True))
    with pytest.raises(NotImplementedError, match="between processes"):
        torch.tpu.Event(interprocess=True)
