"""How traces become programs: what is kept from growing, and what a key tells apart."""

import pytest
import torch

from torch_tpu import _C
from torch_tpu.compiler import building, store


@pytest.fixture
def fused(monkeypatch):
    """Fused mode, every new program compiled at once, none found on disk."""
    monkeypatch.setattr(store, "_load", lambda key: None)
    torch.tpu.set_eager_mode("fused")
    _C.set_async_compile(False)
    yield
    torch.tpu.set_eager_mode("strict")
    _C.set_async_compile(True)


@pytest.fixture
def traces(monkeypatch):
    """Every trace that is compiled."""
    seen = []
    compile_trace = building.compile_trace

    def watch(trace):
        seen.append(trace)
        return compile_trace(trace)

    monkeypatch.setattr(building, "compile_trace", watch)
    return seen


def test_a_long_chain_of_kept_results_is_read_again_not_computed_again(fused, monkeypatch):
    barriers = []
    monkeypatch.setattr(
        building.lax, "optimization_barrier", lambda array: barriers.append(array) or array
    )
    x = torch.arange(7.0, device="tpu")
    kept = [x]
    for _ in range(40):
        kept.append(kept[-1] * 1.5 + 0.25)
    expected = [torch.arange(7.0)]
    for _ in range(40):
        expected.append(expected[-1] * 1.5 + 0.25)
    torch.testing.assert_close([each.cpu() for each in kept], expected)
    assert len(barriers) == 40 // (building._KeptChains.LONGEST + 1)


def test_outputs_that_nothing_can_reach_are_not_among_a_programs_outputs(fused, traces):
    x = torch.full((3, 5), 2.0, device="tpu")
    torch.tpu.synchronize()
    traces.clear()
    y = ((x + 1) * 3).exp().sum()
    assert y.item() == pytest.approx(15 * torch.tensor(9.0).exp().item())
    del y
    assert [len(trace.live) for trace in traces] == [1]


def test_inputs_that_nothing_else_holds_are_donated(fused, traces):
    x = torch.rand(11, 13, device="tpu")
    torch.tpu.synchronize()
    traces.clear()
    x.mul_(2).add_(1)
    x.cpu()
    assert [(trace.donated, trace.reusable()) for trace in traces] == [([0], [0])]


def test_keys_tell_apart_what_is_kept(fused):
    x = torch.rand(17, 3, device="tpu")
    torch.tpu.synchronize()
    before = _C.counters()["compiles"]
    a = x + 1
    b = (a * 2).cpu()
    kept = a.cpu()
    a = x + 1
    a = a * 2
    torch.testing.assert_close(a.cpu(), b)
    torch.testing.assert_close(kept * 2, b)
    assert _C.counters()["compiles"] - before == 2
