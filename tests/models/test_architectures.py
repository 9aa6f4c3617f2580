"""Every kind of model trains on the device as it does on the CPU."""

import pytest
from architectures import ARCHITECTURES, assert_trains_as_on_the_cpu
from quick import quick_ones

# What the others are made of is in these.
QUICK = ("resnet", "unet", "gpt", "llama", "lstm", "dlrm")


@pytest.mark.parametrize("name", quick_ones(ARCHITECTURES, *QUICK))
def test_forward_gradients_and_three_steps_agree_with_cpu(name):
    assert_trains_as_on_the_cpu(name)
