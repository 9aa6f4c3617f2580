"""Numbers out of an op's range are refused at the call in CPU PyTorch's words."""

import pytest
import torch
from comparison import assert_same_refusal

NOT_LOOKED_AT = pytest.mark.xfail(
    strict=True, reason="numbers that are a program's inputs are not looked at by the host"
)

MISTAKES = {
    "randint of nothing": lambda d: torch.randint(3, 3, (2,), device=d),
    "randint out of range": lambda d: torch.randint(0, 300, (3,), dtype=torch.int8, device=d),
    "negative deviation": lambda d: torch.ones(2, device=d).normal_(0, -1),
    "uniform backwards": lambda d: torch.ones(2, device=d).uniform_(1, 0),
    "bernoulli": lambda d: torch.ones(2, device=d).bernoulli_(1.5),
    "exponential": lambda d: torch.ones(2, device=d).exponential_(-1),
    "geometric": lambda d: torch.ones(2, device=d).geometric_(2),
    "cauchy": lambda d: torch.ones(2, device=d).cauchy_(0, -1),
    "log_normal": lambda d: torch.ones(2, device=d).log_normal_(0, -1),
}


@pytest.mark.parametrize("name", [pytest.param(name, marks=NOT_LOOKED_AT) for name in MISTAKES])
def test_refused_as_on_the_cpu(name):
    assert_same_refusal(MISTAKES[name])
