"""Losses and their gradients beside CPU PyTorch."""

import pytest
import torch
import torch.nn.functional as F
from shadow import Shadow, run_rule, run_samples
from torch.testing._internal.common_methods_invocations import op_db

aten = torch.ops.aten

OPS = {
    "nn.functional.binary_cross_entropy": 8,
    "nn.functional.binary_cross_entropy_with_logits": 16,
    "nn.functional.cross_entropy": 20,
    "nn.functional.huber_loss": 8,
    "nn.functional.mse_loss": 8,
    "nn.functional.multi_margin_loss": 20,
    "nn.functional.multilabel_margin_loss": 20,
    "nn.functional.nll_loss": 24,
    "nn.functional.smooth_l1_loss": 8,
    "nn.functional.soft_margin_loss": 8,
}


@pytest.mark.parametrize("op", [op for op in op_db if op.name in OPS], ids=lambda op: op.name)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_samples(op, dtype):
    if dtype not in op.supported_dtypes("cpu"):
        pytest.skip("not on the CPU")
    narrow = {"rtol": 2e-2, "atol": 2e-2} if dtype == torch.bfloat16 else {}
    limit = OPS[op.name] if dtype == torch.float32 else 4
    shadow = run_samples(op, dtype, grad=True, limit=limit, **narrow)
    assert any("loss" in name or "entropy" in name for name in shadow.seen)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("spatial", [(), (2, 3)], ids=["1d", "2d"])
def test_nll_loss_weight_and_ignore_index(reduction, spatial):
    scores = torch.randn(4, 5, *spatial, requires_grad=True)
    target = torch.randint(0, 5, (4, *spatial))
    target[0] = 2
    with Shadow() as shadow:
        loss = F.cross_entropy(
            scores, target, weight=torch.rand(5), ignore_index=2, reduction=reduction
        )
        loss.backward(torch.ones_like(loss))
    assert sum(count for name, count in shadow.seen.items() if "nll_loss" in name) == 2


def test_nll_loss_where_nothing_counts():
    with Shadow():
        loss = F.nll_loss(torch.randn(3, 4, requires_grad=True), torch.full((3,), -100))
        loss.backward()
    assert loss.isnan()


def test_nll_loss_refuses_a_class_that_does_not_exist():
    with pytest.raises(ValueError, match="Target 3 is out of bounds"):
        run_rule(
            aten.nll_loss_forward.default,
            (torch.randn(2, 3), torch.tensor([0, 3]), None, 1, -100),
            {},
        )


def test_losses_at_the_edges():
    edge = torch.tensor([-1.0, 0.0, 1.0, float("nan"), 2.0], requires_grad=True)
    zero = torch.zeros(5)
    with Shadow():
        for loss in (
            F.huber_loss(edge, zero),
            torch.ops.aten.smooth_l1_loss(edge, zero, 1, 1.0),
            F.mse_loss(edge, zero),
            F.binary_cross_entropy(torch.tensor([0.0, 1.0], requires_grad=True), torch.ones(2)),
        ):
            loss.backward()


def test_binary_cross_entropy_refuses_what_is_no_probability():
    with pytest.raises(ValueError, match="between 0 and 1"):
        run_rule(aten.binary_cross_entropy.default, (torch.tensor([1.5]), torch.ones(1)), {})


def test_euclidean_dist():
    x1, x2 = torch.randn(2, 4, 3), torch.randn(2, 5, 3)
    got = run_rule(aten._euclidean_dist.default, (x1, x2), {})
    torch.testing.assert_close(torch.tensor(got.tolist()), torch.cdist(x1, x2))


def test_assert_async():
    run_rule(aten._assert_async.msg, (torch.tensor(True), "never"), {})
    with pytest.raises(ValueError, match="said so"):
        run_rule(aten._assert_async.msg, (torch.tensor(0), "said so"), {})
