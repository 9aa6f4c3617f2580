"""Reductions, order statistics, histograms, distances and segments beside CPU PyTorch."""

import math

import numpy as np
import pytest
import torch
from shadow import Shadow, run_rule, run_samples
from torch.testing._internal.common_methods_invocations import op_db

aten = torch.ops.aten
INF, NAN = math.inf, math.nan

REDUCTIONS = [
    "sum",
    "nansum",
    "mean",
    "prod",
    "any",
    "all",
    "amax",
    "amin",
    "aminmax",
    "max",
    "min",
    "argmax",
    "argmin",
    "count_nonzero",
    "logsumexp",
    "trace",
    "linalg.cross",
    "hash_tensor",
    "var",
    "std",
    "var_mean",
    "std_mean",
    "median",
    "nanmedian",
    "kthvalue",
    "mode",
    "histc",
    "histogram",
    "histogramdd",
    "bincount",
    "norm",
    "linalg.vector_norm",
    "dist",
    "cdist",
    "nn.functional.pdist",
    "_segment_reduce",
]
# CPU PyTorch promises no place among equal elements for these.
ANY_PLACE = ["median", "nanmedian", "kthvalue", "mode"]
# Those whose rules tell dtypes apart; the rest run in one floating and one integer dtype.
VARIED = [
    "sum",
    "mean",
    "prod",
    "any",
    "max",
    "argmax",
    "var_mean",
    "linalg.vector_norm",
    "logsumexp",
]
DTYPES = [torch.float32, torch.int64, torch.bool, torch.bfloat16, torch.complex64]


def cases():
    for op in op_db:
        if op.name not in REDUCTIONS or op.variant_test_name in ("nuc", "binary"):
            continue
        for dtype in DTYPES:
            ties = op.name in ANY_PLACE and dtype in (torch.int64, torch.bool, torch.bfloat16)
            rare = dtype in (torch.bool, torch.bfloat16, torch.complex64)
            if rare and op.name not in VARIED:
                continue
            if dtype in op.supported_dtypes("cpu") and not ties:
                yield pytest.param(op, dtype, id=f"{op.full_name}-{str(dtype)[6:]}")


@pytest.mark.parametrize("op, dtype", cases())
def test_samples(op, dtype):
    # CPU PyTorch rounds after every addition where these accumulate in float32.
    narrow = {"rtol": 3e-2, "atol": 3e-2} if dtype == torch.bfloat16 else {}
    grad = dtype == torch.float32 and op.supports_autograd
    shadow = run_samples(op, dtype, grad=grad, limit=3 if grad else 2, **narrow)
    assert shadow.seen


NANS = torch.tensor([[1.0, NAN, 3.0, NAN], [2.0, 5.0, 5.0, 2.0], [INF, -INF, INF, -INF]])


@pytest.mark.parametrize(
    "op",
    [torch.max, torch.min, torch.argmax, torch.argmin, torch.amax, torch.amin, torch.nansum]
    + [torch.logsumexp, torch.cummax, torch.cummin, torch.prod],
    ids=lambda op: op.__name__,
)
@pytest.mark.parametrize("dim", [0, -1])
def test_nans_infinities_and_ties(op, dim):
    with Shadow() as shadow:
        op(NANS, dim)
        op(torch.tensor(3.0), dim if dim else 0)
    assert sum(shadow.seen.values()) == 2


@pytest.mark.parametrize("op", [torch.median, torch.nanmedian], ids=lambda op: op.__name__)
def test_medians_of_nans(op):
    with Shadow():
        op(NANS)
        op(torch.full((3,), NAN))
        op(torch.tensor([[NAN, 1.0, 2.0, 3.0], [4.0, 1.0, NAN, 2.5]]), -1)
        op(torch.tensor(2.0), 0)


@pytest.mark.parametrize("op", ["median", "nanmedian", "mode", "kthvalue"])
def test_values_stand_at_their_places(op):
    self = torch.randint(0, 4, (6, 9))
    arguments = (self, 3, 1) if op == "kthvalue" else (self, 1)
    overload = getattr(getattr(aten, op), "dim" if "median" in op else "default")
    values, places = (torch.tensor(np.asarray(r)) for r in run_rule(overload, arguments, {}))
    assert torch.equal(values, overload(*arguments)[0])
    assert torch.equal(self.gather(1, places[:, None].long())[:, 0], values)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int32, torch.bool])
def test_integers_sum_to_int64(dtype):
    self = torch.full((70_000,), 1, dtype=dtype) if dtype == torch.bool else None
    self = torch.full((70_000,), torch.iinfo(dtype).max, dtype=dtype) if self is None else self
    with Shadow() as shadow:
        self.sum()
        self.reshape(7, -1).sum(0)
        self.sum(dtype=dtype if dtype != torch.bool else torch.int32)
        self[:3].prod()
    assert len(shadow.seen) == 3


def test_narrow_floats_accumulate_in_float32():
    line = torch.linspace(-1, 1, 4096, dtype=torch.float16)
    with Shadow():
        torch.full((4096,), 0.1, dtype=torch.bfloat16).mean()
        torch.full((300, 300), 1.0, dtype=torch.bfloat16).sum()
        line.var(correction=0)


@pytest.mark.parametrize("correction", [None, 0, 1, 2, 3, 2.5])
def test_variance_corrections(correction):
    with Shadow() as shadow, pytest.warns() if (correction or 0) >= 3 else Shadow():
        torch.randn(2, 3, dtype=torch.complex64).var(1, correction=correction)
        torch.randn(4, 3).add(1e3).std(1, correction=correction, keepdim=True)
    assert len(shadow.seen) >= 2


def test_variance_of_nothing():
    with Shadow():
        torch.zeros(2, 0).mean(1)
        torch.zeros(2, 0).sum(1)
        torch.zeros(2, 0).any(1)
        torch.zeros(0, 3).prod(0)


@pytest.mark.parametrize("p", [1, 2, 3.5, INF])
def test_renorm(p):
    arguments = (torch.randn(3, 4, 5), p, -2, 1.25)
    have = torch.tensor(np.asarray(run_rule(aten.renorm.default, arguments, {})))
    torch.testing.assert_close(have, torch.renorm(*arguments))


@pytest.mark.parametrize("rows", [3, 30])
@pytest.mark.parametrize("p", [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, INF])
def test_cdist(p, rows):
    x1 = torch.randn(2, rows, 4, requires_grad=True)
    x2 = torch.randn(2, 5, 4, requires_grad=True)
    with Shadow():
        torch.cdist(x1, x2, p).sum().backward()


@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "min", "prod"])
@pytest.mark.parametrize("initial", [None, 2.0])
def test_segments_with_zeros_ties_and_empty_ones(reduce, initial):
    data = torch.tensor([0.0, 2.0, 2.0, 3.0, 0.0, 0.0, 7.0])
    for offsets in ([0, 2, 4, 7], [0, 1, 6, 7]):
        with Shadow():
            leaf = data.clone().requires_grad_()
            result = torch.segment_reduce(
                leaf, reduce, offsets=torch.tensor(offsets), initial=initial
            )
            result.sum().backward()
    with Shadow():
        lengths = torch.tensor([3, 0, 4])
        torch.segment_reduce(data[:, None].expand(7, 2), reduce, lengths=lengths, initial=initial)


def test_bincount_refuses_negative_numbers():
    with pytest.raises(ValueError, match="non-negative"):
        run_rule(aten.bincount.default, (torch.tensor([1, -1]),), {})


@pytest.mark.parametrize("weights", [None, torch.rand(5), torch.rand(5).half(), torch.arange(5)])
def test_bincount(weights):
    with Shadow():
        torch.bincount(torch.tensor([1, 6, 1, 0, 6]), weights, minlength=3)
        torch.bincount(torch.tensor([], dtype=torch.int64), minlength=3)
