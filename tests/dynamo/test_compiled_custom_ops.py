"""Ops of the user's own in compiled functions, with and without a rule for the device."""

import pytest
import torch
from compiling import assert_same_numbers, assert_trains, compiled, graphs, randn
from twins import DEVICE, assert_same

from torch_tpu.lowering.registry import lowering

X = randn(3, 4)


@torch.library.custom_op("compiled_tests::twice", mutates_args=())
def twice(x: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
    return x * 2 * scale


@twice.register_fake
def _(x, scale=1.0):
    return torch.empty_like(x)


def _keep_scale(ctx, inputs, output):
    ctx.scale = inputs[1]


twice.register_autograd(
    lambda ctx, gradient: (gradient * 2 * ctx.scale, None), setup_context=_keep_scale
)


@torch.library.custom_op("compiled_tests::add_one_", mutates_args=("x",))
def add_one_(x: torch.Tensor) -> None:
    x.add_(1)


@torch.library.custom_op("compiled_tests::with_rule", mutates_args=())
def with_rule(x: torch.Tensor, exponent: int) -> torch.Tensor:
    raise AssertionError("the rule serves tpu")


@with_rule.register_fake
def _(x, exponent):
    return torch.empty_like(x)


@lowering(torch.ops.compiled_tests.with_rule.default, static=("exponent",))
def _with_rule(x, exponent):
    return x**exponent


@torch.library.custom_op("compiled_tests::split", mutates_args=())
def split(x: torch.Tensor) -> tuple[torch.Tensor, list[torch.Tensor]]:
    return x.sum(), [row.clone() for row in x]


@split.register_fake
def _(x):
    return x.new_empty(()), [torch.empty_like(row) for row in x]


def test_an_op_without_a_rule_runs_between_programs():
    run = compiled(lambda x: twice(x.sin(), 1.5).cos())
    for _ in range(2):
        assert_same(run(X.to(DEVICE)), (X.sin() * 3).cos())
    assert graphs() == 1


def test_an_op_with_a_gradient_of_its_own():
    assert_trains(lambda x: twice(x.sin(), 0.5).exp(), X.clone().requires_grad_())


def test_an_op_that_writes_its_argument():
    def function(x):
        y = x * 2
        add_one_(y)
        add_one_(x)
        return y.sin()

    run, x = compiled(function), X.to(DEVICE)
    assert_same(run(x), (X * 2 + 1).sin())
    assert_same(x, X + 1)


def test_an_op_with_a_rule_is_part_of_the_program():
    run = compiled(lambda x: with_rule(x.abs() + 1, 3) - 1)
    assert_same(run(X.to(DEVICE)), (X.abs() + 1) ** 3 - 1)


def test_an_op_that_gives_several_tensors():
    def function(x):
        total, rows = split(x * 2)
        return total + 1, rows[0] + rows[2]

    assert_same(compiled(function)(X.to(DEVICE)), function(X))


def test_a_composite_op_is_traced_into():
    library = torch.library.Library("compiled_tests", "FRAGMENT")
    library.define("thrice(Tensor x) -> Tensor")
    library.impl("thrice", lambda x: x * 3, "CompositeImplicitAutograd")
    try:
        run = compiled(lambda x: torch.ops.compiled_tests.thrice(x) + 1)
        assert_same(run(X.to(DEVICE)), X * 3 + 1)
    finally:
        library._destroy()


@torch.compiler.allow_in_graph
def allowed(x):
    return x.sin() * 2


def test_a_function_that_is_allowed_in_the_graph():
    assert_trains(lambda x: allowed(x) + 1, X.clone().requires_grad_())


def test_an_op_on_the_host_between_random_ops_keeps_their_order():
    def function(x):
        return torch.rand_like(x) + twice(torch.randn_like(x)) + torch.rand_like(x)

    assert_same_numbers(function, X)


def test_an_op_without_fake_implementation_is_named():
    @torch.library.custom_op("compiled_tests::no_fake", mutates_args=())
    def no_fake(x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    with pytest.raises(Exception, match="no_fake"):
        compiled(lambda x: no_fake(x) + 1)(X.to(DEVICE))
