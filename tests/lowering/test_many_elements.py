"""Functions of a thousand elements on the device, for which compilers write other loops."""

import sys
from pathlib import Path

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import SampleInput, UnaryUfuncInfo

sys.path.append(str(Path(__file__).parents[1] / "conformance"))

from op_samples import Case, check, name_of, supported

UNARY = [op for op in op_db if isinstance(op, UnaryUfuncInfo) and supported(op, torch.float32)]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("op", [op for op in UNARY if op.name != "chalf"], ids=name_of)
def test_a_function_of_many_elements_agrees_with_the_cpu(op):
    check(Case(op, op, SampleInput(torch.linspace(-0.9, 0.9, 1000)), False))


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=str)
def test_arctangents_of_many_elements_agree_with_the_cpu(dtype):
    x = torch.linspace(-3, 3, 1000, dtype=dtype)
    torch.testing.assert_close(x.to("tpu").atan().cpu(), x.atan())
