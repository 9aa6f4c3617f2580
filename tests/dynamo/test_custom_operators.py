"""Custom ops under torch.compile(backend="tpu"): on the host, or by a lowering in the program."""

import contextlib

import jax.numpy as jnp
import pytest
import torch
from captured import compiled, nothing_on_host

import torch_tpu
from torch_tpu.lowering.registry import lowering


@torch.library.custom_op("dynamo_tests::doubled", mutates_args=())
def doubled(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@torch.library.custom_op("dynamo_tests::fill_with_sum", mutates_args=("out",))
def fill_with_sum(x: torch.Tensor, out: torch.Tensor) -> None:
    out.fill_(x.sum().item())


@torch.library.custom_op("dynamo_tests::by_numpy", mutates_args=(), device_types="cpu")
def by_numpy(x: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(x.numpy() + 1)


@torch.library.custom_op("dynamo_tests::cubed", mutates_args=())
def cubed(x: torch.Tensor, factor: float) -> torch.Tensor:
    return x**3 * factor


@torch.library.custom_op("dynamo_tests::accumulate", mutates_args=("total",))
def accumulate(x: torch.Tensor, total: torch.Tensor) -> torch.Tensor:
    total += x
    return total.sum(0)


@torch.library.custom_op("dynamo_tests::scale_all", mutates_args=("tensors",))
def scale_all(tensors: list[torch.Tensor], factor: float) -> None:
    for tensor in tensors:
        tensor *= factor


for _op in (doubled, by_numpy):
    _op.register_fake(torch.empty_like)
cubed.register_fake(lambda x, factor: torch.empty_like(x))
accumulate.register_fake(lambda x, total: x.new_empty(x.shape[1:]))
cubed.register_autograd(
    lambda ctx, grad: (grad * 3 * ctx.saved_tensors[0] ** 2 * ctx.factor, None),
    setup_context=lambda ctx, inputs, output: (
        ctx.save_for_backward(inputs[0]),
        setattr(ctx, "factor", inputs[1]),
    ),
)


@lowering(torch.ops.dynamo_tests.cubed.default)
def _cubed(x, factor):
    return x**3 * jnp.asarray(factor, x.dtype)


@lowering(torch.ops.dynamo_tests.accumulate.default)
def _accumulate(x, total):
    total = total + x
    return total.sum(0), total


@lowering(torch.ops.dynamo_tests.scale_all.default)
def _scale_all(tensors, factor):
    return [tensor * jnp.asarray(factor, tensor.dtype) for tensor in tensors]


def rows(*sizes, seed=0):
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(seed))


def assert_same(function, *tensors, on_host):
    expected = function(*(tensor.clone() for tensor in tensors))
    torch._dynamo.reset()
    target = torch.compile(function, backend="tpu", fullgraph=True)
    with contextlib.nullcontext() if on_host else nothing_on_host():
        found = target(*(tensor.to("tpu") for tensor in tensors))
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one.cpu(), other)


def test_a_python_op_runs_between_programs():
    assert_same(lambda x: (doubled(x.sin()) + 1,), rows(3, 4), on_host=True)


def test_a_python_op_that_writes_runs_between_programs():
    def function(x):
        out = torch.zeros(2, 3, device=x.device)
        fill_with_sum(x.sin(), out[1])
        return out + 1, x.cos()

    assert_same(function, rows(3, 4), on_host=True)


def test_an_op_for_the_cpu_alone_falls_back_and_is_counted():
    before = dict(torch_tpu.diagnostics.fallbacks()).get("dynamo_tests::by_numpy", 0)
    with pytest.warns(UserWarning, match="dynamo_tests::by_numpy"):
        assert_same(lambda x: (by_numpy(x.sin()) * 2,), rows(3, 4), on_host=True)
    after = dict(torch_tpu.diagnostics.fallbacks())["dynamo_tests::by_numpy"]
    assert after == before + 1


def test_an_op_with_a_lowering_is_part_of_the_program():
    assert_same(lambda x: (cubed(x.sin(), 0.5) + 1,), rows(3, 4), on_host=False)


def test_an_op_with_a_lowering_differentiates_as_it_says():
    x = rows(3, 4).to("tpu").requires_grad_()
    with nothing_on_host():
        compiled(lambda x: cubed(x, 0.5).sum())(x).backward()
    torch.testing.assert_close(x.grad.cpu(), 1.5 * rows(3, 4) ** 2)


def test_an_op_with_a_lowering_may_write_and_return():
    def function(x, total):
        changed = total * 1
        last = accumulate(x, changed)
        return changed + 1, last

    assert_same(function, rows(3, 4), rows(3, 4, seed=1), on_host=False)


@pytest.mark.parametrize(
    "view",
    [
        lambda base: base[2:5],
        lambda base: base[:, 1:4],
        lambda base: base.T[1:4, :],
        lambda base: base[::2, ::2],
    ],
    ids=["rows", "columns", "transposed", "strided"],
)
def test_an_op_with_a_lowering_writes_through_a_view(view):
    def function(x):
        base = x * 1
        seen = view(base)
        accumulate(torch.ones_like(seen), seen)
        return base + 1, seen * 2

    assert_same(function, rows(6, 5), on_host=False)


def test_an_op_with_a_lowering_writes_inputs_of_the_program():
    x, total = rows(3, 4), rows(3, 4, seed=1)
    on_device = total.to("tpu")
    compiled(accumulate)(x.to("tpu"), on_device)
    torch.testing.assert_close(on_device.cpu(), total + x)


def test_an_op_with_a_lowering_writes_a_list():
    def function(x, y):
        tensors = [x * 1, y * 1]
        scale_all(tensors, 3.0)
        return tensors[0] + 1, tensors[1]

    assert_same(function, rows(3), rows(4, 2), on_host=False)
