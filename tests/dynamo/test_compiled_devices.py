"""torch.tpu inside compiled functions: devices, streams, events and what it tells of the device."""

import pytest
import torch
from compiling import assert_compiles, compiled, graphs, randn
from torch._dynamo.device_interface import get_interface_for_device
from twins import DEVICE, assert_same

X = randn(3, 4)


def test_facts_of_the_device_are_constants():
    def function(x):
        if not (torch.tpu.is_available() and torch.tpu.is_initialized()):
            return x
        name = torch.tpu.get_device_name()
        major, _ = torch.tpu.get_device_capability()
        memory = torch.tpu.get_device_properties(0).total_memory
        return x + torch.tpu.device_count() + len(name) + major + int(memory > 0)

    x = X.to(DEVICE)
    torch.testing.assert_close(compiled(function)(x), function(x))


def test_the_current_device_is_watched():
    def function():
        number = torch.tpu.current_device()
        return torch.ones(2, device=f"tpu:{number}") + number

    run = compiled(function)
    assert_same(run(), torch.ones(2))
    with torch.tpu.device(1):
        result = run()
    assert result.device == torch.device(DEVICE, 1)
    assert_same(result, torch.full((2,), 2.0))


@pytest.mark.xfail(strict=True, reason="a program's tensors are all made on one device")
def test_another_device_inside():
    def function():
        with torch.tpu.device(1):
            inner = torch.ones(2, device=DEVICE)
        return inner, torch.zeros(2, device=DEVICE)

    for _ in range(2):
        inner, outer = compiled(function)()
        assert (inner.device.index, outer.device.index) == (1, 0)
        assert_same((inner, outer), (torch.ones(2), torch.zeros(2)))
    assert torch.tpu.current_device() == 0


def test_tensors_of_the_second_device():
    x = X.to("tpu:1")
    got = compiled(lambda x: (x.sin() @ x.mT, torch.arange(3, device=x.device)))(x)
    assert all(each.device == x.device for each in got)
    assert_same(got, (X.sin() @ X.mT, torch.arange(3)))


def test_synchronising_inside():
    def function(x):
        y = x + 1
        torch.tpu.synchronize()
        torch.accelerator.synchronize()
        return y * 2

    assert_same(compiled(function)(X.to(DEVICE)), (X + 1) * 2)
    assert graphs() == 1


def test_streams_inside():
    def function(x):
        side = torch.tpu.Stream()
        side.wait_stream(torch.tpu.current_stream())
        with torch.tpu.stream(side):
            y = x + 1
        torch.tpu.current_stream().wait_stream(side)
        return y * 2

    for _ in range(2):
        assert_same(compiled(function)(X.to(DEVICE)), (X + 1) * 2)


def test_a_stream_from_outside():
    side = torch.tpu.Stream()

    def function(x):
        with torch.tpu.stream(side):
            y = x + 1
        side.synchronize()
        return y * 2

    assert_same(compiled(function)(X.to(DEVICE)), (X + 1) * 2)


def test_events_inside():
    outer = torch.tpu.Event()

    def function(x):
        inner = torch.tpu.Event()
        y = x + 1
        inner.record()
        outer.record()
        inner.wait()
        return y * 2

    assert_same(compiled(function)(X.to(DEVICE)), (X + 1) * 2)
    outer.synchronize()
    assert outer.query()


def test_no_stream_is_no_change():
    def function(x):
        with torch.tpu.stream(None), torch.tpu.device(None):
            return x + 1

    assert_same(compiled(function)(X.to(DEVICE)), X + 1)


def test_a_compiled_call_on_a_side_stream():
    side, run = torch.tpu.Stream(), compiled(lambda x: x.sin() + 1)
    with torch.tpu.stream(side):
        got = run(X.to(DEVICE))
    side.synchronize()
    assert_same(got, X.sin() + 1)


def test_asking_where_a_tensor_is():
    def function(x):
        here = torch.zeros(3, 4, device=x.device) + torch.ones_like(x)
        return here + (1 if x.is_tpu and x.device.type == "tpu" else 2)

    assert_same(compiled(function)(X.to(DEVICE)), torch.full((3, 4), 2.0))


def test_moving_there_and_back():
    def function(x):
        return x.tpu().sin().cpu() + x.to("tpu", torch.float64).cpu()

    torch.testing.assert_close(compiled(function)(X), X.sin() + X.double())


def test_memory_and_random_states_break_the_graph():
    def function(x):
        y = x + 1
        torch.tpu.empty_cache()
        state = torch.tpu.get_rng_state()
        return y * (2 if torch.tpu.memory_allocated() > 0 else 1), state

    got, state = compiled(function, fullgraph=False)(X.to(DEVICE))
    assert_same(got, (X + 1) * 2)
    assert torch.equal(state, torch.tpu.get_rng_state())


def test_eager_modes_around_make_no_difference():
    run = compiled(lambda x: (x.sin() @ x.mT).relu())
    for mode in ("strict", "fused", "debug"):
        with torch.tpu.set_eager_mode(mode):
            assert_same(run(X.to(DEVICE) * 1), (X.sin() @ X.mT).relu())


def test_dynamo_has_the_devices_interface():
    compiled(lambda x: x + 1)(X.to(DEVICE))
    interface = get_interface_for_device(DEVICE)
    assert interface.is_available() and interface.device_count() == 2
    assert interface.current_device() == torch.tpu.current_device()
    assert interface.Worker.get_device_properties() == torch.tpu.get_device_properties()
    with interface.device(1):
        assert interface.current_device() == 1
    assert interface.current_stream() == torch.tpu.current_stream()
    interface.synchronize()


def test_dynamo_does_not_look_into_an_eager_ops_compilation():
    seen = []

    def function(x):
        y = x.sin()
        torch._dynamo.graph_break()
        seen.append(torch.linspace(0, 1, x.numel() + 977, device=x.device).sum())
        return y.cos()

    assert_compiles(function, X, calls=1, fullgraph=False)
    assert graphs() == 2
