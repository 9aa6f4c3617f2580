"""What tests of torch.compile share: nothing that was captured before."""

import pytest
import torch


@pytest.fixture(autouse=True)
def fresh_dynamo():
    """Each test captures its own graphs."""
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()
