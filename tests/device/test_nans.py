"""NaNs on the device: where there is one it is the minimum and the maximum, as in PyTorch."""

import pytest
import torch
from torch.testing import assert_close

NAN = float("nan")
REDUCTIONS = ["amin", "amax", "min", "max", "argmin", "argmax", "aminmax"]


@pytest.mark.parametrize("place", [0, 5, 16])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_a_nan_decides_a_reduction(name, dtype, place):
    x = torch.linspace(-1, 1, 17, dtype=dtype)
    x[place] = NAN
    want, have = (getattr(each, name)() for each in (x, x.to("tpu")))
    assert_close(
        torch.stack([*torch.atleast_1d(have)]).cpu(),
        torch.stack([*torch.atleast_1d(want)]),
        equal_nan=True,
    )


@pytest.mark.parametrize("name", ["minimum", "maximum"])
@pytest.mark.parametrize("compile", [False, True])
def test_a_nan_on_either_side_decides_an_elements_minimum(name, compile):
    function = getattr(torch, name)
    x, y = torch.tensor([NAN, 1.0, 2.0]), torch.tensor([1.0, NAN, 3.0])
    on_device = torch.compile(function, backend="tpu") if compile else function
    assert_close(on_device(x.to("tpu"), y.to("tpu")).cpu(), function(x, y), equal_nan=True)
