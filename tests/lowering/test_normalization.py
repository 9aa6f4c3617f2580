"""Batch, layer, group, RMS and weight normalisation beside CPU PyTorch."""

import pytest
import torch
import torch.nn.functional as F
from shadow import Shadow, run_rule, run_samples, to_tensor
from torch.testing._internal.common_methods_invocations import op_db

aten = torch.ops.aten

OPS = {
    "nn.functional.batch_norm": 5,
    "native_batch_norm": 4,
    "_native_batch_norm_legit": 3,
    "_batch_norm_with_update": 3,
    "native_layer_norm": 4,
    "nn.functional.layer_norm": 4,
    "nn.functional.group_norm": 4,
    "nn.functional.instance_norm": 3,
}
TOLERANCE = {torch.float32: 1e-4, torch.bfloat16: 3e-2}


@pytest.mark.parametrize("op", [op for op in op_db if op.name in OPS], ids=lambda op: op.name)
@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
def test_samples(op, dtype):
    tolerance = TOLERANCE[dtype]
    limit = OPS[op.name] if dtype == torch.float32 else 2
    shadow = run_samples(op, dtype, grad=True, limit=limit, rtol=tolerance, atol=tolerance)
    assert any("norm" in name for name in shadow.seen)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("momentum", [0.1, None])
def test_batch_norm_module(training, momentum):
    """Half inputs with wide parameters; the running statistics move, by a changing share."""
    module = torch.nn.BatchNorm2d(3, momentum=momentum).train(training)
    with Shadow(rtol=2e-2, atol=2e-2) as shadow:
        for _ in range(2):
            x = torch.randn(4, 3, 5, 2, dtype=torch.bfloat16, requires_grad=True)
            module(x).float().square().sum().backward()
    assert shadow.seen["aten.native_batch_norm_backward.default"] == 2


def test_batch_norm_of_one_element():
    with Shadow():
        aten.native_batch_norm(
            torch.zeros(1, 3), None, None, torch.zeros(3), torch.ones(3), True, 0.1, 1e-5
        )


def test_batch_norm_with_a_reserve():
    x, weight, mean, variance = torch.randn(4, 3, 2), torch.rand(3), torch.randn(3), torch.rand(3)
    with Shadow(rtol=1e-5, atol=1e-5) as shadow:
        *_, reserve = aten._batch_norm_no_update(x, weight, weight, mean, variance, 0.1, 1e-5)
        _, *saved, reserve = aten._batch_norm_with_update(
            x, weight, weight, mean, variance, 0.1, 1e-5
        )
        aten._native_batch_norm_legit_no_training(x, weight, weight, mean, variance, 0.1, 1e-5)
        aten.batch_norm_update_stats(x, mean, variance, 0.1)
        for update in (True, False):
            stored = (mean, variance, *saved)
            aten.batch_norm_backward(x, x, weight, *stored, update, 1e-5, [True] * 3, reserve)
    assert len(shadow.seen) == 5


def _synchronised(x, grad, weight, bias, running, shards):
    """Batch norm from its parts, each shard as if in a process of its own."""

    def call(op, *args):
        got = run_rule(op, args, {})
        got = got if isinstance(got, tuple) else (got,)
        return [to_tensor(each, torch.float32) for each in got]

    xs, grads = x.chunk(shards), grad.chunk(shards)
    moments = [call(aten.batch_norm_stats.default, each, 1e-5) for each in xs]
    means, rstds = (torch.stack(each) for each in zip(*moments, strict=True))
    counts = torch.tensor([each[:, 0].numel() for each in xs], dtype=torch.float32)
    mean, rstd, *moved = call(
        aten.batch_norm_gather_stats_with_counts.default,
        x,
        means,
        rstds,
        *running,
        0.1,
        1e-5,
        counts,
    )
    elemt = aten.batch_norm_elemt.default
    output = torch.cat([call(elemt, each, weight, bias, mean, rstd, 1e-5)[0] for each in xs])
    reduce = aten.batch_norm_backward_reduce.default
    sums = [
        call(reduce, g, each, mean, rstd, weight, True, True, True)
        for g, each in zip(grads, xs, strict=True)
    ]
    sum_dy, sum_dy_xmu, grad_weight, grad_bias = (sum(each) for each in zip(*sums, strict=True))
    elemt, counts = aten.batch_norm_backward_elemt.default, counts.int()
    grad_input = torch.cat(
        [
            call(elemt, g, each, mean, rstd, weight, sum_dy, sum_dy_xmu, counts)[0]
            for g, each in zip(grads, xs, strict=True)
        ]
    )
    return output, *moved, grad_input, grad_weight, grad_bias


def test_synchronised_batch_norm():
    x, grad = torch.randn(5, 3, 4, requires_grad=True), torch.randn(5, 3, 4)
    weight, bias = torch.rand(3, requires_grad=True), torch.randn(3, requires_grad=True)
    running = (torch.randn(3), torch.rand(3))
    parts = [t.detach().clone() for t in (x, grad, weight, bias)]
    got = _synchronised(*parts, [t.clone() for t in running], 2)
    output = F.batch_norm(x, *running, weight, bias, True, 0.1)
    gradients = torch.autograd.grad(output, (x, weight, bias), grad)
    torch.testing.assert_close(got, (output.detach(), *running, *gradients), rtol=1e-4, atol=1e-5)


def test_gathered_statistics_move_the_running_ones_on_the_device():
    x = torch.randn(8, 3, 4)
    mean, rstd = aten.batch_norm_stats(x.to("tpu"), 1e-5)
    running = [torch.zeros(3, device="tpu"), torch.ones(3, device="tpu")]
    gathered = aten.batch_norm_gather_stats_with_counts(
        x.to("tpu"),
        mean.expand(2, 3),
        rstd.expand(2, 3),
        *running,
        0.1,
        1e-5,
        torch.full((2,), 32.0, device="tpu"),
    )
    variance = x.transpose(0, 1).flatten(1).repeat(1, 2).var(1)
    expected = [mean.cpu(), rstd.cpu(), 0.1 * mean.cpu(), 0.9 + 0.1 * variance]
    torch.testing.assert_close([each.cpu() for each in (*gathered, *running)], expected)


@pytest.mark.parametrize("eps", [None, 1e-3])
@pytest.mark.parametrize("weighted", [True, False])
def test_rms_norm(eps, weighted):
    """CPU PyTorch has no fused kernel to run beside: the composite's gradients instead."""
    x, grad = torch.randn(4, 3, 5, requires_grad=True), torch.randn(4, 3, 5)
    weight = torch.rand(3, 5, requires_grad=True) if weighted else None
    expected = F.rms_norm(x, [3, 5], weight, eps)
    inputs = (x, weight) if weighted else (x,)
    gradients = torch.autograd.grad(expected, inputs, grad)
    x, weight = x.detach(), weight.detach() if weighted else None
    output, rstd = run_rule(aten._fused_rms_norm.default, (x, [3, 5], weight, eps), {})
    rstd = to_tensor(rstd, torch.float32)
    assert rstd.shape == (4, 1, 1)
    got = run_rule(
        aten._fused_rms_norm_backward.default,
        (grad, x, [3, 5], rstd, weight, [True, weighted]),
        {},
    )
    for have, want in zip((output, *got), (expected, *gradients), strict=False):
        torch.testing.assert_close(to_tensor(have, torch.float32), want.detach())


@pytest.mark.parametrize("dim", [0, 2])
@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
def test_weight_norm(dim, dtype):
    v = torch.randn(3, 4, 5, dtype=dtype, requires_grad=True)
    g = torch.rand([n if axis == dim else 1 for axis, n in enumerate(v.shape)], dtype=dtype)
    with Shadow(rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype]) as shadow:
        torch._weight_norm(v, g.requires_grad_(), dim).square().sum().backward()
    assert len([name for name in shadow.seen if "weight_norm" in name]) == 2


def test_masks_leave_gradients_out():
    x, weight = torch.randn(4, 6, 5), torch.rand(6, requires_grad=True)
    with Shadow(rtol=1e-5, atol=1e-5):
        F.group_norm(x, 2, weight).square().sum().backward()
        F.batch_norm(x, None, None, weight, training=True).square().sum().backward()
        F.layer_norm(x.mT, [6], weight).square().sum().backward()
