"""What a program keeps: values that something can still reach, and no memory for others."""

import gc
import random
import threading

import pytest
import torch
from architectures import mlp
from counting import DEVICE, MIB, bytes_in_use, growth, peak
from torch import nn

LARGE = 4 * MIB  # floats, so 16 MiB each


@pytest.fixture(autouse=True)
def nothing_left():
    gc.collect()
    torch.ones(1, device=DEVICE)
    torch.tpu.synchronize()


@pytest.fixture
def large():
    x = torch.ones(LARGE, device=DEVICE)
    torch.tpu.synchronize()
    return x


def test_intermediates_of_a_chain_take_no_memory(large):
    def chain():
        y = large
        for _ in range(20):
            y = (y * 1.01).sin()
        torch.tpu.synchronize()
        assert y.nbytes == large.nbytes

    assert peak(chain) == large.nbytes  # the result


def test_recording_takes_no_memory_and_a_dropped_result_is_never_computed(large):
    before = bytes_in_use()
    results = [large + number for number in range(4)]
    assert torch.tpu.memory_allocated() == before
    del results[1:]
    torch.tpu.synchronize()
    assert torch.tpu.memory_allocated() == before + large.nbytes


@pytest.mark.parametrize(
    "update",
    [lambda x: x.add_(1), lambda x: x.mul_(2).sub_(1), lambda x: x.view(2, -1)[0].add_(1)],
    ids=["add_", "two at once", "through a view"],
)
def test_in_place_updates_reuse_the_buffer(large, update):
    def loop():
        for _ in range(5):
            update(large)
            torch.tpu.synchronize()

    assert peak(loop) <= 0


def test_a_training_step_reuses_weights_and_optimizer_state():
    model = nn.Linear(1024, 1024, bias=False).to(DEVICE)
    optimizer = torch.optim.Adam(model.parameters())
    rows = torch.randn(4, 1024).to(DEVICE)

    def steps():
        for _ in range(3):
            model(rows).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()

    steps()
    weight = 4 * MIB
    # The gradient, and what a step computes beside what it replaces.
    assert peak(steps) <= 2 * weight


def test_an_input_that_is_still_held_is_not_reused(large):
    kept = large
    new = large.clone()
    view = new[:4]
    new.add_(1)
    torch.tpu.synchronize()
    assert kept[:4].tolist() == [1] * 4 and view.tolist() == [2] * 4


def test_a_value_held_only_by_a_view_survives():
    x = torch.arange(6.0).to(DEVICE)
    view = (x * 2).view(2, 3)[1]
    del x
    torch.tpu.synchronize()
    assert view.tolist() == [6, 8, 10]


def test_a_value_held_only_by_autograd_survives():
    x = torch.arange(3.0).to(DEVICE).requires_grad_()
    y = (x * 2).exp().sum()  # exp's result is saved for its backward
    torch.tpu.synchronize()
    y.backward()
    torch.testing.assert_close(x.grad.cpu(), 2 * (2 * torch.arange(3.0)).exp())


def test_a_value_handed_to_another_thread_survives():
    handed, results, ready = [], [], threading.Event()

    def receive():
        ready.wait(30)
        results.append(handed.pop().sum().item())

    thread = threading.Thread(target=receive)
    thread.start()
    handed.append(torch.ones(3, device=DEVICE) * 2)
    ready.set()
    thread.join(30)
    assert results == [6]


def test_a_value_from_before_an_in_place_write_is_what_was_read():
    x = torch.zeros(3, device=DEVICE)
    before = x + 1
    copy = x.clone()
    x.add_(5)
    assert (before.tolist(), copy.tolist(), x.tolist()) == ([1] * 3, [0] * 3, [5] * 3)


class Cycle:
    """Garbage that only the collector frees."""

    def __init__(self, *tensors):
        self.tensors, self.itself = tensors, self


def training_with_garbage(collect):
    torch.manual_seed(0)
    model = mlp().to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters())
    rows = torch.randn(8, 12).to(DEVICE)

    def step(_):
        hidden = model[:2](rows)
        Cycle(hidden, hidden * 2)
        collect()
        loss = model[2:](hidden).square().mean()
        Cycle(loss)
        collect()
        loss.backward()
        collect()
        Cycle([p.grad for p in model.parameters()])
        optimizer.step()
        collect()
        optimizer.zero_grad()

    return step


@pytest.fixture
def no_automatic_collection():
    gc.disable()
    gc.freeze()  # the collector has less to look at, and is quicker
    yield
    gc.enable()


@pytest.mark.usefixtures("no_automatic_collection")
@pytest.mark.parametrize("chance", [0.1, 0.5])
def test_collecting_garbage_at_random_moments_makes_no_programs(chance):
    moments = random.Random(7)
    step = training_with_garbage(lambda: moments.random() < chance and gc.collect())
    assert growth(step, warm=2, more=30) == 0


@pytest.mark.usefixtures("no_automatic_collection")
def test_garbage_that_was_collected_is_freed_at_the_next_synchronisation(large):
    before = bytes_in_use()
    Cycle(large * 2)
    assert bytes_in_use() == before + large.nbytes
    gc.collect()
    assert bytes_in_use() == before


@pytest.mark.usefixtures("no_automatic_collection")
def test_garbage_collected_before_it_was_computed_is_freed_too(large):
    before = bytes_in_use()
    Cycle(large * 2)
    gc.collect()
    assert bytes_in_use() == before


@pytest.mark.usefixtures("no_automatic_collection")
def test_garbage_collected_in_strict_mode_is_freed_at_once_though_fused_mode_was_used(large):
    with torch.tpu.set_eager_mode("strict"):
        before = bytes_in_use()
        Cycle(large * 2)
        assert bytes_in_use() == before + large.nbytes
        gc.collect()
        assert torch.tpu.memory_allocated() == before
