"""What a device says of itself."""

import pytest
import torch

from torch_tpu.accelerator import properties


def test_the_device():
    described = torch.tpu.get_device_properties("tpu:1")
    assert described.name == torch.tpu.get_device_name(1)
    assert described.total_memory > 1 << 30
    assert (described.major, described.minor) == torch.tpu.get_device_capability(1)
    if described.platform == "cpu":
        assert described.name == "CPU (PJRT)"
        assert torch.tpu.get_device_capability() == (0, 0)


def test_dtypes():
    assert torch.tpu.is_bf16_supported()
    assert torch.tpu.get_amp_supported_dtype() == [torch.bfloat16, torch.float16]


@pytest.mark.parametrize(
    ("kind", "name", "capability", "gigabytes"),
    [
        ("TPU v4", "TPU v4", (4, 0), 32),
        ("TPU v5 lite", "TPU v5e", (5, 0), 16),
        ("TPU v5", "TPU v5p", (5, 1), 95),
        ("TPU v6 lite", "TPU v6e", (6, 0), 32),
        ("TPU7x", "TPU v7", (7, 0), 96),
    ],
)
def test_chips_by_the_kinds_that_libtpu_names(kind, name, capability, gigabytes):
    chip = properties.CHIPS[kind]
    assert (chip.name, chip.capability) == (name, capability)
    assert chip.device_memory == gigabytes << 30
