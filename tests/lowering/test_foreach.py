"""Ops over lists of tensors beside CPU PyTorch."""

import pytest
import torch
from shadow import Shadow

from torch_tpu.lowering import registry

aten = torch.ops.aten
OVERLOADS = [op for op in registry.rules() if op._schema.name.startswith("aten::_foreach_")]
SHAPES = [(3, 3), (1, 1), (2, 2)]


def _lists(dtype):
    return [torch.testing.make_tensor(s, dtype=dtype, device="cpu", low=1, high=4) for s in SHAPES]


def _argument(argument, dtype):
    """A value for a required argument, by its name and type."""
    kind = str(argument.type)
    if argument.name in ("tensor1", "tensors1", "tensor2", "weights") or kind == "List[Tensor]":
        return _lists(dtype)
    if kind == "Tensor":
        return torch.tensor([0.5, 2.0, 3.0] if argument.name == "scalars" else 2.0)
    return [0.5, 2, 3] if kind.startswith("List") else 2.5


def _run(overload, dtype):
    required = (a for a in overload._schema.arguments if not a.has_default_value())
    values = [_argument(argument, dtype) for argument in required]
    with Shadow() as shadow:
        overload(*values)
    assert shadow.seen == {str(overload): 1}


@pytest.mark.parametrize("overload", OVERLOADS, ids=str)
def test_overload(overload):
    _run(overload, torch.float32)


@pytest.mark.parametrize("name", ["add", "addcdiv", "div", "lerp", "maximum", "mul", "norm"])
def test_bfloat16(name):
    _run(getattr(aten, f"_foreach_{name}").Scalar, torch.bfloat16)


def _compared(shadow):
    return sum(count for name, count in shadow.seen.items() if "_foreach_" in name)


def test_every_functional_list_op_has_a_rule():
    names = {op._schema.name for op in OVERLOADS}
    packets = {name for name in dir(aten) if name.startswith("_foreach_") and name[-1] != "_"}
    assert {f"aten::{name}" for name in packets} <= names


def test_in_place_and_alpha():
    with Shadow() as shadow:
        lists = _lists(torch.float32)
        torch._foreach_add_(lists, _lists(torch.float32), alpha=0.5)
        torch._foreach_sub_(lists, _lists(torch.float32), alpha=2)
        torch._foreach_add_(lists, torch.tensor(2.0), alpha=3)
        torch._foreach_addcdiv_(lists, lists, lists, value=-0.5)
        torch._foreach_copy_(lists, _lists(torch.bfloat16))
        torch._foreach_zero_(lists)
    assert _compared(shadow) == 6


def test_numbers_promote_as_over_one_tensor():
    with Shadow() as shadow:
        torch._foreach_add(_lists(torch.int32), 2)
        torch._foreach_mul(_lists(torch.int32), [0.5, 2, True])
        torch._foreach_div(_lists(torch.int64), 2)
        torch._foreach_pow(_lists(torch.int32), 2)
        torch._foreach_sqrt(_lists(torch.int32))
    assert _compared(shadow) == 5


@pytest.mark.parametrize("order", [0, 1, 2, 3, float("inf")])
def test_norms(order):
    with Shadow() as shadow:
        torch._foreach_norm(_lists(torch.float32), order)
        torch._foreach_norm(_lists(torch.bfloat16), order, torch.float32)
        torch._foreach_powsum(_lists(torch.float32), order)
    assert _compared(shadow) == 3
