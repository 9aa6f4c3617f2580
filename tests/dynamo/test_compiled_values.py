"""Integers, lengths and errors that values decide, inside one graph."""

import pytest
import torch
from compiling import assert_compiles, assert_trains, compiled, randn
from twins import DEVICE, assert_same


@pytest.mark.parametrize("source", [lambda x: x, lambda x: x.sin()])
def test_a_slice_begins_where_a_host_tensor_says(source):
    def function(x, start):
        return torch.narrow(source(x), 1, start, 2) * 2

    run, x = compiled(function), randn(5, 5)
    for start in (1, 3, 0):
        assert_same(run(x.to(DEVICE), torch.tensor(start)), function(x, torch.tensor(start)))


def test_a_returned_view_of_an_argument_that_begins_where_values_decide_is_refused():
    run = compiled(lambda x, start: torch.narrow(x, 0, start, 2))
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match=r"clone\(\)"):
        run(randn(5, device=DEVICE), torch.tensor(2))


def test_a_scalar_is_indexed_by_an_index_of_open_length():
    def function(x, mask):
        return torch.index_select(x, 0, mask.nonzero()[:, 0])

    assert_compiles(function, torch.tensor(1.5), torch.tensor([True, False]))


def test_a_scalar_that_is_filled_from_a_tensor_is_differentiated():
    def function(x, value):
        return torch.index_fill(x, 0, torch.zeros(1, dtype=torch.int64, device=x.device), value)

    x, value = (torch.tensor(each, requires_grad=True) for each in (1.5, 2.5))
    assert_trains(function, x, value)


def test_a_graph_that_checks_for_errors_does_so_each_time_it_is_compiled():
    for _ in range(2):
        torch._dynamo.reset()
        run, x = compiled(torch.linalg.inv), torch.eye(3) * 2
        assert_same(run(x.to(DEVICE)), torch.linalg.inv(x))
        with pytest.raises(torch._C._LinAlgError, match="singular"):
            run(torch.zeros(3, 3, device=DEVICE)).cpu()
