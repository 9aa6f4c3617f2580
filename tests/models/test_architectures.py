"""Every kind of model trains on the device as it does on the CPU."""

import pytest
from architectures import ARCHITECTURES, assert_trains_as_on_the_cpu


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_forward_gradients_and_three_steps_agree_with_cpu(name):
    assert_trains_as_on_the_cpu(name)
