"""A tensor's text is the CPU's and the device's name; making it compiles nothing."""

import re

import pytest
import torch
from torch import nn

from torch_tpu import diagnostics

TENSORS = {
    "floats": lambda: torch.tensor([[1.5, -2.25], [1e-8, 3e6]]),
    "whole floats": lambda: torch.tensor([1.0, 2.0, 300.0]),
    "wide range": lambda: torch.tensor([1e-9, 1.0, 1e9]),
    "not finite": lambda: torch.tensor([float("nan"), float("inf"), -1.0]),
    "float64": lambda: torch.tensor([1 / 3], dtype=torch.float64),
    "bfloat16": lambda: torch.tensor([1 / 3, 2.0], dtype=torch.bfloat16),
    "float16": lambda: torch.tensor([1 / 3, 2.0], dtype=torch.float16),
    "float8": lambda: torch.tensor([0.5, 2.0]).to(torch.float8_e4m3fn),
    "integers": lambda: torch.tensor([[1, -20], [300, 4]]),
    "int8": lambda: torch.tensor([1, -2], dtype=torch.int8),
    "bools": lambda: torch.tensor([True, False]),
    "complex numbers": lambda: torch.tensor([1 + 2j, -3.5j]),
    "conjugates": lambda: torch.tensor([1 + 2j, -3.5j]).conj(),
    "negatives": lambda: torch.tensor([1 + 2j, -3.5j]).conj().imag,
    "a number": lambda: torch.tensor(3.25),
    "nothing": lambda: torch.ones(0, 3),
    "views": lambda: torch.arange(12.0).reshape(3, 4)[:, 1::2].t(),
    "expanded": lambda: torch.ones(1).expand(2, 2),
    "long": lambda: torch.arange(2000.0),
    "large": lambda: torch.arange(30000).reshape(30, 1000),
    "many dims": lambda: torch.arange(16).reshape(2, 2, 2, 2),
    "leaf": lambda: torch.ones(2).requires_grad_(),
}


def without_device(text):
    return re.sub(r",\s+device='tpu:0'", "", text)


def collapsed(text):
    """The text in one line: a device's name moves line breaks before the suffixes."""
    return re.sub(r"\s+", " ", text)


@pytest.mark.parametrize("name", TENSORS)
def test_text_is_the_cpu_s_with_the_device_named(name):
    tensor = TENSORS[name]()
    moved = tensor.detach().to("tpu").requires_grad_(tensor.requires_grad)
    assert "device='tpu:0'" in repr(moved)
    assert collapsed(without_device(repr(moved))) == collapsed(repr(tensor))
    assert str(moved) == repr(moved)


def test_results_parameters_and_other_devices():
    x = torch.ones(2, device="tpu", requires_grad=True)
    assert repr(x * 2) == "tensor([2., 2.], device='tpu:0', grad_fn=<MulBackward0>)"
    assert repr(nn.Parameter(x.detach())) == (
        "Parameter containing:\ntensor([1., 1.], device='tpu:0', requires_grad=True)"
    )
    assert repr(torch.ones(1, device="tpu:1")) == "tensor([1.], device='tpu:1')"
    assert repr([torch.tensor(1, device="tpu")]) == "[tensor(1, device='tpu:0')]"


def test_print_options_and_format():
    x = torch.tensor([1 / 3], device="tpu")
    torch.set_printoptions(precision=2)
    try:
        assert repr(x) == "tensor([0.33], device='tpu:0')"
    finally:
        torch.set_printoptions(profile="default")
    assert f"{x[0]:.1f}" == "0.3" and f"{x}" == repr(x)


def test_inside_transforms_and_modes():
    texts = []

    def show(x):
        texts.append(repr(x))
        return x * 2

    x = torch.ones(2, device="tpu")
    torch.vmap(show)(x)
    torch.func.jvp(show, (x,), (x,))
    assert "BatchedTensor" in texts[0] and "tensor([1., 1.], device='tpu:0'" in texts[1]
    with torch.inference_mode(), torch.device("tpu"):
        assert repr(torch.ones(1)) == "tensor([1.], device='tpu:0')"


def test_printing_compiles_and_runs_nothing():
    tensors = [TENSORS[name]().to("tpu") for name in ("floats", "not finite", "large", "bools")]
    before = diagnostics.counters()
    texts = [repr(each) for each in tensors]
    after = diagnostics.counters()
    assert all(texts) and after["compiles"] == before["compiles"]
    assert after["executions"] == before["executions"]


def test_storages_print():
    assert "device=tpu:0" in repr(torch.ones(1, device="tpu").untyped_storage())
