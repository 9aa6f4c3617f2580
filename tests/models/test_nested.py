"""Rows of several lengths: jagged and strided nested tensors beside CPU PyTorch's."""

import pytest
import torch
from torch.nn import functional as F
from twins import DEVICE, assert_same

from torch_tpu import diagnostics

LENGTHS = (2, 3, 5)


def _parts(width):
    return [torch.randn(length, width) for length in LENGTHS]


def _nested(parts, device, layout):
    return torch.nested.nested_tensor(parts, layout=layout, device=device, requires_grad=True)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_attention_of_jagged_rows_and_its_gradients():
    def attend(device):
        leaves = [_nested(each, device, torch.jagged) for each in parts]
        q, k, v = (each.unflatten(-1, [2, 4]).transpose(1, 2) for each in leaves)
        out = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(-2).values()
        gradients = torch.autograd.grad(out.square().sum(), leaves)
        return [out, *(each.values() for each in gradients)]

    parts = [_parts(8) for _ in "qkv"]
    assert_same(attend(DEVICE), attend("cpu"), rtol=1e-4, atol=1e-5)


JAGGED = {
    "sum": lambda x: x.sum(dim=1),
    "mean": lambda x: x.mean(dim=1),
    "amax": lambda x: x.amax(dim=1),
    "softmax along rows": lambda x: x.softmax(1).values(),
    "layer norm of rows": lambda x: F.layer_norm(x, (x.size(1), 6)).values(),
    "padded": lambda x: x.to_padded_tensor(-1.0),
}


@pytest.mark.parametrize("name", JAGGED)
def test_reductions_of_jagged_rows_stay_on_the_device(name):
    def run(device):
        return JAGGED[name](_nested(parts, device, torch.jagged).detach())

    parts = _parts(6)
    diagnostics.reset_counters()
    assert_same(run(DEVICE), run("cpu"), rtol=1e-4, atol=1e-5)
    assert diagnostics.counters()["fallbacks"] == 0


# These have no gradients on the CPU either.
def _unary(x):
    return (x.abs() + x * x).sqrt() * x.sin() - x.cos() + x.sgn().neg()


def _halves(x):
    return x.chunk(2, -1)[1].clone() + x.split_with_sizes([3, 3], -1)[0].clone()


OPS = {
    "arithmetic": lambda x: (x * 2 + x - 1.5 * x) / 3,
    "activations": lambda x: F.gelu(x) + F.relu(x) + F.silu(x),
    "linear": lambda x: F.linear(
        x, torch.ones(4, 6, device=x.device), torch.ones(4, device=x.device)
    ),
    "softmax": lambda x: x.softmax(-1),
    "matmul": lambda x: x @ x.transpose(-2, -1),
    "dropout in evaluation": lambda x: F.dropout(x, 0.5, training=False),
    "unary": lambda x: _unary(x.detach()),
    "batched products": lambda x: torch.bmm(x, x.transpose(1, 2)),
    "a part": lambda x: x.select(0, 1),
    "splits": lambda x: _halves(x.detach()),
    "another shape": lambda x: x.view(3, -1, 2, 3).transpose(2, 3).contiguous(),
    "dims of one": lambda x: x.unsqueeze(-1).squeeze(-1),
    "concatenation": lambda x: torch.cat([x.detach(), x.detach()]),
    "its buffer": lambda x: x.values(),
    "masks": lambda x: x.masked_fill((x > 0).logical_not(), 3.0),
    "tests": lambda x: x.detach().isnan().logical_not() * (x.detach() >= 0),
    "in place": lambda x: F.relu_(x.detach().clone().mul_(2)).neg_().abs_().tanh_(),
    "filled": lambda x: torch.ones_like(x).mul_(x).copy_(x.clone().zero_().fill_(2.0)),
    "copies": lambda x: x.clone().detach().contiguous().double().float(),
}


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("name", OPS)
def test_ops_of_strided_nested_tensors(name):
    def run(device):
        x = _nested(parts, device, torch.strided)
        result = OPS[name](x)
        if result.is_nested:
            result = result.to_padded_tensor(0.0)
        return [result, *(torch.autograd.grad(result.sum(), x) if result.requires_grad else ())]

    parts = _parts(6)
    got, expected = run(DEVICE), run("cpu")
    assert_same(got[0], expected[0], rtol=1e-4, atol=1e-5)
    for have, want in zip(got[1:], expected[1:], strict=True):
        assert_same(list(have.unbind()), list(want.unbind()), rtol=1e-4, atol=1e-5)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_a_column_of_a_strided_nested_tensor_is_refused():
    x = torch.nested.nested_tensor(_parts(6), device=DEVICE)
    with pytest.raises(NotImplementedError, match="dim 0 alone"):
        x.select(-1, 1)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_strided_nested_tensors_move_and_print():
    parts = _parts(6)
    moved = torch.nested.nested_tensor(parts).to(DEVICE)
    assert moved.device.type == DEVICE
    for have, want in zip(moved.cpu().unbind(), parts, strict=True):
        assert torch.equal(have, want)
    assert "nested_tensor([" in repr(moved)
