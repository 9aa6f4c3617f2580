"""Threads share what a device records, and the mode may change at any moment."""

import threading

import pytest
import torch
from architectures import mlp
from counting import DEVICE
from torch.nn import functional as F
from twins import gradients, twins

from torch_tpu import _C


def in_threads(count, work):
    """Runs ``work(number)`` in threads; raises what one of them raised."""
    wrong = []

    def guarded(number):
        try:
            work(number)
        except BaseException as error:  # a thread's failure must reach the test
            wrong.append(error)

    threads = [threading.Thread(target=guarded, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not any(thread.is_alive() for thread in threads), "a thread hangs"
    if wrong:
        raise wrong[0]


@pytest.mark.parametrize("asynchronous", [False, True])
def test_eight_threads_that_share_a_device_get_their_own_results(asynchronous):
    _C.set_async_compile(asynchronous)

    def work(number):
        x = torch.randn(8, 8, generator=torch.Generator().manual_seed(number)) / 4
        leaf, device_leaf = x.clone().requires_grad_(), x.to(DEVICE).requires_grad_()
        for _ in range(10):
            for each in (leaf, device_leaf):
                each.grad = None
                (each @ each.T).tanh().mul(number + 0.5).sum().backward()
            torch.testing.assert_close(device_leaf.grad.cpu(), leaf.grad)

    in_threads(8, work)


def test_threads_read_values_that_another_one_recorded():
    values = [torch.full((4,), 1.0, device=DEVICE) * number for number in range(8)]
    results = {}

    def read(number):
        results[number] = values[number].sum().item()

    in_threads(8, read)
    assert results == {number: 4.0 * number for number in range(8)}


def test_two_devices_record_apart():
    def work(number):
        x = torch.ones(5, device=f"tpu:{number % 2}")
        for _ in range(20):
            x = x * 1.5 - 0.25
        expected = torch.ones(5)
        for _ in range(20):
            expected = expected * 1.5 - 0.25
        torch.testing.assert_close(x.cpu(), expected)

    in_threads(4, work)


def test_backward_on_autograds_own_threads_agrees_with_the_cpu():
    models = twins(mlp)
    rows = torch.randn(8, 12, generator=torch.Generator().manual_seed(0))
    for model, device in zip(models, ("cpu", DEVICE), strict=True):
        for _ in range(3):
            model(rows.to(device)).square().mean().backward()
    for got, expected in zip(gradients(models[1]), gradients(models[0]), strict=True):
        torch.testing.assert_close(got.cpu(), expected)


def test_a_hook_that_reads_a_value_in_backward_sees_it():
    seen = []
    x = torch.ones(3, device=DEVICE, requires_grad=True)
    y = x * 2
    y.register_hook(lambda grad: seen.append(grad.sum().item()))
    (y * 5).sum().backward()
    assert seen == [15.0] and x.grad.tolist() == [10] * 3


def test_a_backward_within_a_backward():
    class Inner(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            with torch.enable_grad():
                leaf = x.detach().requires_grad_()
                (leaf**3).sum().backward()
            return grad * leaf.grad

    x = torch.tensor([1.0, 2.0], device=DEVICE, requires_grad=True)
    Inner.apply(x).sum().backward()
    assert x.grad.tolist() == [3.0, 12.0]


def test_values_stay_right_while_the_mode_changes():
    x, expected = torch.ones(4, device=DEVICE), torch.ones(4)
    for mode in ("fused", "strict", "debug", "fused", "debug", "fused", "strict"):
        torch.tpu.set_eager_mode(mode)
        view = x[1:3]
        for each in (x, expected):
            each.mul_(2).add_(1)
        x, expected = x.cumsum(0), expected.cumsum(0)
        assert view.tolist() != []
    torch.testing.assert_close(x.cpu(), expected)


def test_leaving_fused_mode_runs_what_was_recorded():
    before = torch.tpu.memory_allocated()
    with torch.tpu.set_eager_mode("fused"):
        x = torch.ones(1024, device=DEVICE)
    with torch.tpu.set_eager_mode("strict"):
        assert torch.tpu.memory_allocated() - before == x.nbytes


def test_the_mode_changes_while_other_threads_work():
    done = threading.Event()

    def work(number):
        if number == 0:
            for turn in range(30):
                torch.tpu.set_eager_mode(("fused", "strict", "debug")[turn % 3])
            done.set()
            return
        x = torch.full((4,), 0.5, device=DEVICE)
        while True:
            y = F.relu(x * number - 0.25).sum()
            assert y.item() == pytest.approx(4 * max(0.5 * number - 0.25, 0))
            if done.is_set():
                return

    in_threads(4, work)
