"""Tests of torch.compile begin with nothing compiled, and share the CPU twins of tests/models."""

import sys
from pathlib import Path

import pytest
import torch
from torch._dynamo.utils import counters

sys.path.append(str(Path(__file__).parents[1] / "models"))


@pytest.fixture(autouse=True)
def nothing_compiled(settings):
    torch._dynamo.reset()
    counters.clear()
    yield
    torch._dynamo.reset()
