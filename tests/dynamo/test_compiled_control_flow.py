"""Control flow: what Dynamo unrolls, what breaks a graph, and the operators that hold graphs."""

import pytest
import torch
from compiling import assert_compiles, assert_trains, compiled, graphs, randn
from torch import nn
from torch._higher_order_ops import associative_scan, scan, while_loop
from torch._higher_order_ops import map as map_rows
from twins import DEVICE, assert_same, twins

X = randn(3, 4)


def _cond(x, scale=1.0):
    return torch.cond(x.sum() > 0, lambda a: a.sin() * scale, lambda a: a.cos() - 1, (x,))


def test_cond_takes_the_branch_that_values_choose():
    run, inputs = compiled(_cond), (X.abs(), -X.abs(), X.abs())
    got = [run(x.to(DEVICE)) for x in inputs]
    assert graphs() == 1
    assert_same(got, [_cond(x) for x in inputs])


def test_cond_is_differentiated():
    for x in (X.abs(), -X.abs()):
        assert_trains(_cond, x.requires_grad_())


class Gated(nn.Module):
    def __init__(self):
        super().__init__()
        self.yes, self.no = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        return torch.cond(x.mean() > 0, self.yes, self.no, (x,))


def test_cond_of_modules_trains_their_parameters():
    models = twins(Gated)
    for call, x in ((models[0], X.abs()), (compiled(models[1]), X.abs().to(DEVICE))):
        call(x).sum().backward()
    assert_same(models[1].yes.weight.grad, models[0].yes.weight.grad)


def test_cond_inside_cond():
    def function(x):
        def inner(a):
            return torch.cond(a.max() > 1, lambda b: b * 2, lambda b: b * 3, (a,))

        return torch.cond(x.sum() > 0, inner, lambda a: a - 1, (x,))

    for x in (X.abs() + 2, X.abs() * 0.1, -X.abs()):
        assert_compiles(function, x, calls=1)


def test_a_condition_that_python_knows_is_unrolled():
    assert_compiles(lambda x: torch.cond(x.dim() == 2, torch.sin, torch.cos, (x,)), X, calls=1)


def test_while_loop():
    def function(x):
        def condition(i, a):
            return (i < 5) & (a.abs().max() < 20)

        def body(i, a):
            return i + 1, a * 2

        return while_loop(condition, body, (torch.zeros((), dtype=torch.int64).to(x.device), x))

    assert_compiles(function, X)
    assert_compiles(function, X * 10)


def test_while_loop_reads_what_it_does_not_carry():
    def function(x, w):
        return while_loop(
            lambda i, a: i < 3,
            lambda i, a: (i + 1, torch.tanh(a @ w)),
            (torch.zeros((), dtype=torch.int64, device=x.device), x),
        )

    assert_compiles(function, X, randn(4, 4, seed=2))


def test_scan():
    def function(x):
        return scan(lambda c, row: (c + row, c * row), torch.zeros(4, device=x.device), x)

    assert_compiles(function, X)


def test_scan_from_the_end_over_a_tree():
    def function(x, y):
        def step(carry, rows):
            total = carry["total"] + rows[0] * rows[1]
            return {"total": total}, total.sin()

        initial = {"total": torch.ones(4, device=x.device)}
        carry, outputs = scan(step, initial, (x, y), reverse=True)
        return carry["total"], outputs

    assert_compiles(function, X, randn(3, 4, seed=2))


def test_scan_is_differentiated():
    def function(x):
        return scan(lambda c, row: (c * row.sin(), c + row), torch.ones(4, device=x.device), x)

    assert_trains(function, X.clone().requires_grad_())


def test_associative_scan():
    def function(x):
        return associative_scan(lambda a, b: a * b + a, x, 0, combine_mode="generic")

    assert_compiles(function, X)


def test_map_over_rows():
    assert_compiles(lambda x, w: map_rows(lambda row, w: row.sin() @ w, x, w), X, randn(4, 2))


@pytest.mark.parametrize("name", ["cond", "while_loop", "scan"])
def test_under_autocast(name):
    functions = {
        "cond": lambda x: torch.cond(x.sum() > 0, lambda a: a @ a, lambda a: a.cos() @ a, (x,)),
        "while_loop": lambda x: while_loop(
            lambda i, a: i < 3,
            lambda i, a: (i + 1, (a @ a).float().sin()),
            (torch.zeros((), dtype=torch.int64, device=x.device), x),
        )[1],
        "scan": lambda x: scan(lambda c, row: (c + row, c * row), torch.zeros_like(x[0]), x)[1],
    }

    def run(call):
        with torch.autocast(DEVICE):
            return call(randn(4, 4, device=DEVICE))

    expected = run(compiled_by_eager(functions[name]))
    torch.testing.assert_close(run(compiled(functions[name])), expected)


def compiled_by_eager(function):
    return torch.compile(function, backend="aot_eager", fullgraph=True)


def test_loops_and_branches_of_python_are_unrolled():
    def function(x, repeats, flags):
        for number in range(repeats):
            x = x + number if flags[number % len(flags)] else x * 2
        return x

    run = compiled(function)
    for repeats, flags in ((3, (True, False)), (2, (False,))):
        got = run(X.to(DEVICE), repeats, flags)
        assert_same(got, function(X, repeats, flags))


def test_a_branch_on_values_breaks_the_graph():
    def function(x):
        y = x * 2
        if y.sum() > 0:
            return y.sin()
        return y.cos()

    for x in (X.abs(), -X.abs()):
        assert_compiles(function, x, fullgraph=False)


def test_results_whose_sizes_values_decide():
    def function(x):
        return (x > 0).nonzero(), x[x > 0] * 2, torch.unique(x.round())

    assert_compiles(function, X, fullgraph=False)


def test_a_number_read_from_a_tensor():
    def function(x):
        scale = x.sum().item()
        return x * scale + x.max().tolist()

    assert_compiles(function, X, fullgraph=False)


def test_a_number_read_inside_a_graph_that_captures_scalars():
    def function(x, n):
        scale = n.item()
        return x * scale

    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        assert_compiles(function, X, torch.tensor(3))


def test_printing_and_numpy_break_the_graph(capsys):
    def function(x):
        y = x.sin()
        print("seen")
        return torch.from_numpy(y.cpu().numpy() + 1)

    got = compiled(function, fullgraph=False)(X.to(DEVICE))
    torch.testing.assert_close(got, function(X))
    assert capsys.readouterr().out == "seen\nseen\n"


def test_generators_comprehensions_and_closures():
    def function(x):
        def rows():
            for row in x:
                yield row * 2

        return torch.stack([row + 1 for row in rows()]).sum(0)

    assert_compiles(function, X)


def test_an_exception_of_the_users_is_caught_inside():
    def function(x):
        try:
            if x.dim() == 2:
                raise ValueError("two")
        except ValueError:
            return x + 1
        return x

    assert_compiles(function, X)


def test_a_wrong_shape_raises_while_tracing():
    run = compiled(lambda x: x @ x, fullgraph=False)
    with pytest.raises(RuntimeError, match="shape|size"):
        run(X.to(DEVICE))
