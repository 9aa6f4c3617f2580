"""Compiled functions reuse the memory of what they replace and of what nobody needs any more."""

import torch
from compiling import compiled, randn
from torch import nn
from twins import DEVICE

from torch_tpu import _C

MIB = 2**20


def peak_while(function):
    """Bytes of tensors that a call adds at its highest."""
    torch.tpu.synchronize()
    before = torch.tpu.memory_allocated()
    torch.tpu.reset_peak_memory_stats()
    function()
    torch.tpu.synchronize()
    return _C.memory_stats(0)["peak_tensor_bytes"] - before


def test_an_input_that_is_written_gives_its_memory():
    x = torch.ones(1024, 1024, device=DEVICE)
    run = compiled(lambda x: x.mul_(2).add_(1))
    run(x)
    assert peak_while(lambda: run(x)) < MIB
    assert x[0, 0].item() == 7


def test_an_input_that_something_else_holds_is_kept():
    x = torch.ones(256, 256, device=DEVICE)
    run = compiled(lambda x: x.mul_(2))
    alias = torch.empty(0, device=DEVICE).set_(x.untyped_storage(), 0, (256, 256), (256, 1))
    kept = x.clone()
    run(x)
    assert torch.equal(alias, x) and torch.equal(kept, torch.ones_like(kept))


def test_a_compiled_optimizers_step_makes_no_second_copy_of_its_state():
    model = nn.Linear(512, 512, bias=False).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters())
    step = torch.compile(optimizer.step, backend="tpu")
    model(randn(4, 512, device=DEVICE)).sum().backward()
    for _ in range(2):
        step()
    assert peak_while(step) < MIB // 4  # the parameter alone has 1 MiB, the state 2


def test_a_backward_pass_reuses_what_the_forward_pass_saved():
    def function(x, w):
        for _ in range(4):
            x = torch.tanh(x @ w)
        return x.sum()

    run = compiled(function)
    x, w = (randn(512, 512, seed=seed, device=DEVICE) for seed in (1, 2))

    def gradient():
        w.requires_grad_()
        (grad,) = torch.autograd.grad(run(x, w), w)
        return grad

    gradient()
    gradient()
    # Four results and w.T at most are saved, and the gradient is the only new tensor after them.
    assert peak_while(gradient) <= 6 * MIB


def test_activations_that_are_cheap_to_compute_again_are_not_saved():
    def function(x):
        return (x.sin().exp() * x.cos()).tanh().sum()

    x = randn(512, 512, device=DEVICE).requires_grad_()
    run, peaks = compiled(function), []
    for each in (run, function):
        each(x).backward()
        peaks.append(peak_while(lambda each=each: each(x)))
    assert peaks[0] < 0.6 * peaks[1]
