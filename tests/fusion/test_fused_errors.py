"""Mistakes in fused mode: shapes at the call, values with the op's line, and nothing hangs."""

import inspect
import warnings

import pytest
import torch
from counting import DEVICE

from torch_tpu import _C
from torch_tpu.compiler import building
from torch_tpu.diagnostics import counters


@pytest.fixture
def broken_fusion(monkeypatch):
    """A compiler that can compile one op at a time only."""
    compile_trace = building.compile_trace

    def compile_single(trace):
        if len(trace.steps) > 1:
            raise RuntimeError("this program is too large")
        return compile_trace(trace)

    monkeypatch.setattr(building, "compile_trace", compile_single)


def unique_chain(seed):
    """A result of several ops whose program no other test has made, and its expectation."""
    x = torch.arange(7.0 + seed)
    return (x.to(DEVICE).sin() * 2).cumsum(0) + seed, (x.sin() * 2).cumsum(0) + seed


def next_line():
    """Where the line after the caller's is, as a note gives it."""
    caller = inspect.currentframe().f_back
    return f"{caller.f_code.co_filename}:{caller.f_lineno + 1}"


def test_a_shape_error_raises_at_the_call_and_leaves_what_was_recorded_whole():
    x = torch.ones(3, device=DEVICE) * 2
    with pytest.raises(RuntimeError, match="must match the size of tensor b"):
        x + torch.ones(4, device=DEVICE)
    assert (x + 1).tolist() == [3] * 3


def test_an_index_error_names_the_line_of_the_op_and_not_of_the_read():
    x, index = torch.ones(3, device=DEVICE), torch.tensor([0, 3]).to(DEVICE)
    line = next_line()
    taken = x.take(index)
    later = (taken * 2).sum()
    with pytest.raises(IndexError) as raised:
        later.item()
    assert any(line in note for note in raised.value.__notes__)


def test_of_two_index_errors_in_a_trace_the_first_is_named():
    x, index = torch.ones(3, device=DEVICE), torch.tensor([5]).to(DEVICE)
    line = next_line()
    first = x.take(index)
    second = x.index_select(0, index)
    with pytest.raises(IndexError) as raised:
        (first + second).sum().item()
    assert any(line in note for note in raised.value.__notes__)


def test_a_repeated_trace_names_the_line_of_its_own_op():
    x, fine, wrong = torch.ones(3, device=DEVICE), torch.tensor([1]), torch.tensor([4])
    for _ in range(3):
        (x.take(fine.to(DEVICE)) + 1).sum().item()
    line = next_line()
    taken = x.take(wrong.to(DEVICE))
    with pytest.raises(IndexError) as raised:
        (taken + 1).sum().item()
    assert any(line in note for note in raised.value.__notes__)


def test_a_check_that_fails_is_raised_at_synchronisation_though_nothing_reads_it():
    torch.ones(3, device=DEVICE).take(torch.tensor([3]).to(DEVICE))
    with pytest.raises(IndexError):
        torch.tpu.synchronize()
    torch.tpu.synchronize()


def test_after_an_error_by_value_the_device_goes_on():
    x = torch.ones(3, device=DEVICE)
    for _ in range(3):
        with pytest.raises(IndexError):
            x.take(torch.tensor([3]).to(DEVICE)).sum().item()
        assert (x + 1).tolist() == [2] * 3


@pytest.mark.usefixtures("broken_fusion")
def test_a_trace_that_cannot_be_compiled_runs_op_by_op_with_one_warning():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(3):
            got, expected = unique_chain(100)
            torch.testing.assert_close(got.cpu(), expected)
    (warning,) = [each for each in caught if "torch_tpu" in str(each.message)]
    assert "aten::sin" in str(warning.message) and "too large" in str(warning.message)


@pytest.mark.usefixtures("broken_fusion")
def test_a_trace_that_cannot_be_compiled_in_the_background_runs_op_by_op_too():
    _C.set_async_compile(True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(4):
            got, expected = unique_chain(101)
            torch.testing.assert_close(got.cpu(), expected)


@pytest.fixture
def broken_compiler(monkeypatch):
    """A compiler that can compile nothing that is new."""

    def refuse(trace):
        raise RuntimeError("no compiler today")

    monkeypatch.setattr(building, "compile_trace", refuse)


@pytest.mark.filterwarnings("ignore")
def test_what_depends_on_an_op_that_failed_says_why(broken_compiler):
    x = torch.ones(211, device=DEVICE)
    wrong = x.cos().tanh()
    with pytest.raises(RuntimeError, match="no compiler today"):
        wrong.sum().item()
    for _ in range(2):
        with pytest.raises(RuntimeError, match="op that it depends on failed"):
            wrong.cpu()
    with pytest.raises(RuntimeError, match="op that it depends on failed"):
        (wrong + 1).cpu()


@pytest.mark.filterwarnings("ignore")
def test_a_weight_whose_update_failed_says_why_and_can_be_written_again(broken_compiler):
    weight = torch.ones(223).to(DEVICE)
    weight.sinh_().cosh_()
    with pytest.raises(RuntimeError, match="no compiler today"):
        torch.tpu.synchronize()
    with pytest.raises(RuntimeError, match="op that it depends on failed"):
        weight.tolist()
    weight.copy_(torch.full((223,), 5.0))
    assert weight.tolist() == [5] * 223


def test_a_failed_flush_leaves_later_work_whole(monkeypatch):
    with monkeypatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patch.setattr(building, "compile_trace", lambda trace: 1 / 0)
        wrong = torch.ones(227, device=DEVICE).cos()
        with pytest.raises(ZeroDivisionError):
            wrong.cpu()
    got, expected = unique_chain(102)
    torch.testing.assert_close(got.cpu(), expected)


def test_a_value_that_is_read_while_a_program_is_made_is_right(monkeypatch):
    compile_trace, read = building.compile_trace, []

    def compile_and_read(trace):
        if not read:
            read.append(None)
            read.append((torch.ones(3, device=DEVICE) * 41 + 1).tolist())
        return compile_trace(trace)

    monkeypatch.setattr(building, "compile_trace", compile_and_read)
    got, expected = unique_chain(103 + counters()["compiles"] % 1000)
    torch.testing.assert_close(got.cpu(), expected)
    assert read[1:] in ([], [[42.0] * 3])
