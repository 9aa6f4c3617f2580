"""torch.tpu has what scripts for CUDA call; torch.accelerator speaks of the same device."""

import pytest
import torch

import torch_tpu
from torch_tpu import debug, diagnostics

NAMES = [
    "device_count", "current_device", "set_device", "device", "device_of", "is_available",
    "is_initialized", "synchronize", "Stream", "stream", "default_stream", "current_stream",
    "set_stream", "Event", "get_device_name", "get_device_properties", "get_device_capability",
    "is_bf16_supported", "get_amp_supported_dtype", "default_generators", "manual_seed",
    "manual_seed_all", "seed", "seed_all", "initial_seed", "get_rng_state", "get_rng_state_all",
    "set_rng_state", "set_rng_state_all", "memory_allocated", "max_memory_allocated",
    "memory_reserved", "max_memory_reserved", "memory_stats", "memory_stats_as_nested_dict",
    "memory_summary", "reset_peak_memory_stats", "reset_accumulated_memory_stats",
    "reset_max_memory_allocated", "reset_max_memory_cached", "memory_cached",
    "max_memory_cached", "mem_get_info", "empty_cache", "OutOfMemoryError", "EagerMode",
    "eager_mode", "set_eager_mode", "Precision", "precision",
]  # fmt: skip


def test_every_promised_name_exists():
    assert [name for name in NAMES if not hasattr(torch.tpu, name)] == []
    assert torch_tpu.set_eager_mode is torch.tpu.set_eager_mode


def test_the_accelerator_is_the_tpu():
    accelerator = torch.accelerator
    assert accelerator.is_available() and accelerator.current_accelerator().type == "tpu"
    assert accelerator.device_count() == torch.tpu.device_count() == 2
    assert accelerator.current_stream() == torch.tpu.current_stream()
    accelerator.set_device_index(1)
    assert torch.tpu.current_device() == accelerator.current_device_index() == 1
    accelerator.set_device_index(0)
    with accelerator.device_index(1):
        assert torch.tpu.current_device() == 1
    accelerator.synchronize()
    assert torch.get_device_module() is torch.tpu


@pytest.mark.usefixtures("strict")
def test_the_accelerator_counts_memory():
    accelerator = torch.accelerator
    before = accelerator.memory_allocated()
    x = torch.ones(1024, device="tpu")
    assert accelerator.memory_allocated() - before == x.nbytes
    accelerator.reset_peak_memory_stats()
    del x
    assert accelerator.max_memory_allocated() >= before + 4096
    assert accelerator.memory_reserved() >= 0 and accelerator.memory_stats()
    accelerator.empty_cache()
    assert accelerator.memory_allocated() == before


def test_events_of_torch_time_the_device():
    start, end = (torch.Event("tpu", enable_timing=True) for _ in range(2))
    start.record()
    torch.ones(64, 64, device="tpu") @ torch.ones(64, 64, device="tpu")
    end.record()
    end.synchronize()
    assert end.query() and 0 <= start.elapsed_time(end) < 60_000


def test_a_fallback_can_be_an_error():
    x = torch.ones(4, 4, device="tpu")
    with diagnostics.fallback_policy("error"), pytest.raises(NotImplementedError) as refused:
        torch.ops.aten._add_relu(x, x)
    assert "has no lowering for tpu" in str(refused.value) and "float32" in str(refused.value)


def test_fallbacks_are_errors_where_the_environment_says_so(run_python):
    code = """
import torch
x = torch.ones(4, 4, device="tpu")
try:
    torch.ops.aten._add_relu(x, x)
except NotImplementedError as error:
    print("aten::_add_relu.Tensor(float32, float32)" in str(error))
"""
    assert run_python(code, TORCH_TPU_FALLBACK="error") == "True"


@pytest.mark.parametrize("numerator", [0.0, 1.0])
def test_nan_checks_name_the_op(numerator):
    x = torch.full((2,), numerator, device="tpu")
    with (
        torch.tpu.set_eager_mode("debug"),
        debug.nan_checks(),
        pytest.raises(RuntimeError, match=r"aten::div\.Tensor gave \d NaN and \d Inf values"),
    ):
        x / torch.zeros(2, device="tpu")
    assert not (x / torch.zeros(2, device="tpu")).isfinite().any()
