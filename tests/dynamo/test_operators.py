"""Higher-order operators under torch.compile(backend="tpu"): parts of programs."""

import pytest
import torch
import torch.nn.functional as F
from captured import compiled, nothing_on_host
from torch._higher_order_ops.associative_scan import associative_scan
from torch._higher_order_ops.map import map as map_rows
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.compiler import nested_compile_region
from torch.utils.checkpoint import checkpoint


def rows(*sizes, seed=0):
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(seed))


def outputs_and_gradients(function, tensors):
    leaves = [
        tensor.detach().clone().requires_grad_(tensor.is_floating_point()) for tensor in tensors
    ]
    outputs = function(*leaves)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    differentiable = [out for out in outputs if out.requires_grad]
    if differentiable:
        sum((out * out).sum() for out in differentiable).backward()
    return [*outputs, *(leaf.grad for leaf in leaves if leaf.is_floating_point())]


def assert_same(function, *tensors):
    """The compiled function beside the same one on CPU, its gradients too."""
    expected = outputs_and_gradients(function, tensors)
    with nothing_on_host():
        found = outputs_and_gradients(compiled(function), [each.to("tpu") for each in tensors])
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(None if one is None else one.cpu(), other)


@pytest.mark.parametrize("sign", [1, -1])
def test_cond_runs_one_branch_and_differentiates_it(sign):
    def function(x, y):
        return torch.cond(
            (x * sign).sum() > 0, lambda x, y: x.sin() * y, lambda x, y: x.cos() + 2 * y, (x, y)
        )

    assert_same(function, rows(3, 4), rows(3, 4, seed=1))


def test_cond_inside_cond():
    def inner(x):
        return torch.cond(x.max() > 1, lambda x: x * 2, lambda x: x - 1, (x,))

    def function(x):
        return torch.cond(x.sum() > -100, inner, lambda x: x.clone(), (x,))

    assert_same(function, rows(5))


def test_while_loop_goes_on_as_long_as_values_say():
    def function(x):
        def unfinished(turn, y):
            return (y.abs().max() < 50) & (turn < 40)

        return while_loop(unfinished, lambda turn, y: (turn + 1, y * 1.5), (turn_zero(x), x))

    def turn_zero(x):
        return torch.zeros((), dtype=torch.int64, device=x.device)

    with torch.no_grad():
        expected = function(rows(4))
        found = compiled(function)(rows(4).to("tpu"))
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one.cpu(), other)


def test_while_loop_that_never_runs_gives_what_it_began_with():
    def function(x):
        return while_loop(lambda y: y.sum() > 1e9, lambda y: (y + 1,), (x,))[0]

    with torch.no_grad():
        torch.testing.assert_close(compiled(function)(rows(4).to("tpu")).cpu(), rows(4))


def test_scan_carries_and_stacks_and_has_gradients():
    def function(start, x, weight):
        def step(carry, row):
            carry = torch.tanh(carry @ weight + row)
            return carry, carry * 2

        return scan(step, start, x, dim=0)

    assert_same(function, rows(3), rows(5, 3, seed=1), rows(3, 3, seed=2))


def test_scan_backwards_over_another_dim():
    def function(start, x):
        return scan(lambda carry, row: (carry + row, carry * row), start, x, dim=1, reverse=True)

    assert_same(function, rows(3), rows(3, 6, seed=1))


def test_map_runs_a_function_for_each_row():
    def function(x, bias):
        return map_rows(lambda row, bias: row.sin() * row.sum() + bias, x, bias)

    assert_same(function, rows(5, 3), rows(3, seed=1))


def test_associative_scan_takes_rows_in_any_grouping():
    def function(x, y):
        def combine(left, right):
            return left[0] * right[0], left[1] * right[0] + right[1]

        return associative_scan(combine, (x, y), dim=0, combine_mode="generic")

    assert_same(function, rows(7, 3), rows(7, 3, seed=1))


def test_nested_regions_are_one_program_and_differentiate():
    @nested_compile_region
    def block(x, weight):
        return torch.relu(x @ weight)

    assert_same(lambda x, weight: block(block(x, weight), weight), rows(4, 3), rows(3, 3, seed=1))


@pytest.mark.parametrize("loop", ["scan", "map"])
def test_each_turn_of_a_loop_draws_other_numbers(loop):
    def function(x):
        if loop == "map":
            return map_rows(lambda row: row + torch.rand_like(row), x)
        return scan(lambda c, row: (c + 1, row + torch.rand_like(row)), x[0], x, dim=0)[1]

    with torch.no_grad():
        drawn = compiled(function)(torch.zeros(8, 16, device="tpu")).cpu()
    assert drawn.unique().numel() == drawn.numel()


def test_loops_repeat_their_numbers_with_the_seed_and_go_on_without_it():
    function = compiled(lambda x: map_rows(lambda row: row + torch.rand_like(row), x))
    x = torch.zeros(3, 4, device="tpu")
    draws = []
    for seed in (5, None, 5):
        if seed is not None:
            torch.manual_seed(seed)
        with torch.no_grad():
            draws.append(function(x).cpu())
    assert torch.equal(draws[0], draws[2])
    assert not torch.equal(draws[0], draws[1])


def test_random_numbers_in_both_branches_and_after_them_differ():
    def function(x):
        first = torch.cond(x.sum() == 0, torch.rand_like, lambda x: torch.rand_like(x) * 2, (x,))
        return first, torch.rand_like(x)

    with torch.no_grad():
        first, second = compiled(function)(torch.zeros(100, device="tpu"))
    assert torch.cat([first, second]).unique().numel() == 200


@pytest.mark.parametrize("where", ["cond", "map", "nested"])
def test_an_index_out_of_range_inside_is_an_error(where):
    @nested_compile_region
    def pick(x, index):
        return x[index]

    def function(x, index):
        if where == "cond":
            return torch.cond(index.sum() > 0, lambda x, i: x[i], lambda x, i: x[i * 0], (x, index))
        if where == "map":
            return map_rows(lambda row, x: x[row.reshape(1)], index, x)
        return pick(x, index)

    index = torch.tensor([1, 7])
    with torch.no_grad(), pytest.raises(IndexError, match="out of range|out of bounds"):
        compiled(function)(rows(3).to("tpu"), index.to("tpu")).cpu()


def test_checkpointing_drops_the_same_elements_when_it_computes_again():
    def function(x, weight):
        def block(x):
            return F.dropout(x @ weight, 0.5)

        return checkpoint(block, x, use_reentrant=False).square()

    x, weight = torch.ones(64, 64, device="tpu"), torch.eye(64, device="tpu")
    x.requires_grad_()
    with nothing_on_host():
        out = compiled(function)(x, weight)
        out.sum().backward()
    # d/dx of (m x)**2 is 2 m**2 x, m being 0 or 2: the mask of the forward has to come again.
    torch.testing.assert_close(x.grad.cpu(), 2 * out.detach().cpu())
    assert set(out.detach().unique().tolist()) == {0.0, 4.0}


def test_checkpointed_blocks_drop_other_elements_each_time():
    def function(x):
        def block(x):
            return F.dropout(x, 0.5).sin()

        return checkpoint(block, x, use_reentrant=False), checkpoint(block, x, use_reentrant=False)

    x = torch.ones(1000, device="tpu", requires_grad=True)
    first, second = compiled(function)(x)
    assert not torch.equal(first, second)


def test_checkpointed_dropout_of_narrow_tensors():
    def function(x):
        return checkpoint(lambda x: F.dropout(x.sin(), 0.25).cos(), x, use_reentrant=False)

    x = torch.ones(1000, device="tpu", dtype=torch.bfloat16, requires_grad=True)
    with nothing_on_host():
        out = compiled(function)(x)
        out.sum().backward()
    assert x.grad.dtype == torch.bfloat16
    dropped = out == 1
    assert torch.equal(x.grad == 0, dropped)
    assert 0.2 < dropped.float().mean().item() < 0.3


def test_branches_hold_tensors_of_their_own():
    def function(x):
        def plus(y):
            return y + torch.tensor([1.0, 2.0, 3.0], device=x.device) * torch.tensor(2.0)

        return torch.cond(x.sum() > 0, plus, lambda y: y * torch.ones(3, device=x.device), (x,))

    run = compiled(function)
    for sign in (1.0, -1.0):
        x = torch.full((3,), sign)
        torch.testing.assert_close(run(x.to("tpu")).cpu(), function(x))
