"""Tests of fused mode begin in it, and wait for compilations so that counts are certain."""

import sys
from pathlib import Path

import pytest
import torch

from torch_tpu import _C

sys.path.append(str(Path(__file__).parents[1] / "models"))


@pytest.fixture(autouse=True)
def fused(settings):
    torch.tpu.synchronize()
    torch.tpu.set_eager_mode("fused")
    _C.set_async_compile(False)
    yield
    torch.tpu.synchronize()
    _C.set_async_compile(True)
