"""Fallbacks to the CPU are counted, warned about once per op, or refused."""

import warnings

import pytest
import torch

from torch_tpu import diagnostics
from torch_tpu.diagnostics import fallback


@pytest.fixture(autouse=True)
def policy():
    with diagnostics.fallback_policy("warn"):
        fallback.reset()
        yield
        fallback.reset()


def test_one_warning_per_op_and_every_call_counted():
    with pytest.warns(UserWarning, match=r"aten::foo\(float32, int64\) has no lowering") as caught:
        for _ in range(3):
            fallback.report("aten::foo", [torch.float32, torch.int64])
    assert len(caught) == 1
    assert diagnostics.fallbacks() == {"aten::foo": 3}


def test_allowing_and_refusing():
    with warnings.catch_warnings(), diagnostics.fallback_policy("allow"):
        warnings.simplefilter("error")
        fallback.report("aten::foo", [])
    with (
        diagnostics.fallback_policy("error"),
        pytest.raises(NotImplementedError, match=r"aten::foo\(bool\) has no lowering for tpu"),
    ):
        fallback.report("aten::foo", [torch.bool])
    assert fallback.fallback_policy.get() == "warn"
    with pytest.raises(ValueError, match="but got 'never'"):
        diagnostics.fallback_policy("never")


def test_counters_start_again():
    fallback.report("aten::foo", [])
    torch.ones(2, device="tpu") + 1
    assert diagnostics.counters()["ops"] > 0
    diagnostics.reset_counters()
    assert diagnostics.counters()["ops"] == 0 and diagnostics.fallbacks() == {}
