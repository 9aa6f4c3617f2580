"""Linear layers over several dynamic dims gather nothing they merge, and keep their numbers."""

import jax
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from torch_tpu.lowering import bounded, sizes
from torch_tpu.lowering.sizes import Size

aten = torch.ops.aten
BOUNDS = (16, 8)


def layer(x, grad, weight, bias, s, t):
    """A linear layer and its gradients, op by op as AOTAutograd writes them."""
    rows = yield aten.view.default, (x, [s * t, 6])
    columns = yield aten.permute.default, (weight, [1, 0])
    product = yield aten.addmm.default, (bias, rows, columns)
    output = yield aten.view.default, (product, [s, t, 5])
    grad_rows = yield aten.view.default, (grad, [s * t, 5])
    grad_x = yield aten.mm.default, (grad_rows, weight)
    grad_x = yield aten.view.default, (grad_x, [s, t, 6])
    turned = yield aten.permute.default, (grad_rows, [1, 0])
    grad_weight = yield aten.mm.default, (turned, rows)
    grad_bias = yield aten.sum.dim_IntList, (grad_rows, [0], True)
    return output, grad_x, grad_weight, grad_bias


def run(program):
    """Runs a generator of calls, each answered with what its op gives at bounds."""
    result = None
    try:
        while True:
            overload, args = program.send(result)
            assert bounded.serves(overload, args, {})
            result = bounded.call(overload, args, {})
    except StopIteration as done:
        return done.value


def at_bounds(s, t, x, grad, weight, bias):
    with sizes.bounded_trace():
        s, t = Size(BOUNDS[0], s), Size(BOUNDS[1], t)
        x, grad = sizes.sized(x, (s, t, 6)), sizes.sized(grad, (s, t, 5))
        return run(layer(x, grad, weight, bias, s, t))


def padded(tensor):
    whole = np.full((*BOUNDS, tensor.shape[-1]), np.nan, np.float32)
    whole[tuple(map(slice, tensor.shape))] = tensor
    return whole


@pytest.mark.parametrize("true", [(11, 5), (16, 8), (3, 1)])
def test_a_linear_layer_and_its_gradients_are_those_of_the_true_sizes(true):
    generator = torch.Generator().manual_seed(0)
    x, grad = (torch.randn(*true, width, generator=generator) for width in (6, 5))
    weight, bias = torch.randn(5, 6, generator=generator), torch.randn(5, generator=generator)
    leaves = [each.clone().requires_grad_() for each in (x, weight, bias)]
    output = F.linear(*leaves)
    grads = torch.autograd.grad(output, leaves, grad)
    expected = output.detach(), grads[0], grads[1], grads[2][None]

    with jax.default_matmul_precision("highest"):
        got = jax.jit(at_bounds)(
            *map(np.int32, true), padded(x), padded(grad), weight.numpy(), bias.numpy()
        )
    for have, want in zip(got, expected, strict=True):
        part = np.array(np.asarray(have)[tuple(map(slice, want.shape))])
        assert_close(torch.from_numpy(part), want)


def test_nothing_is_gathered():
    arrays = [np.zeros(shape, np.float32) for shape in ((*BOUNDS, 6), (*BOUNDS, 5), (5, 6), (5,))]
    compiled = jax.jit(at_bounds).lower(*map(np.int32, BOUNDS), *arrays).compile()
    assert " gather(" not in compiled.as_text()
