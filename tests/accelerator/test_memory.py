"""Memory functions count what tensors hold."""

import gc

import pytest
import torch

MIB = 1 << 20


@pytest.fixture(autouse=True)
def clean(strict):
    torch.ones(1, device="tpu")
    gc.collect()
    torch.tpu.synchronize()
    torch.tpu.reset_peak_memory_stats()


def test_allocated_follows_tensors():
    before = torch.tpu.memory_allocated()
    x = torch.zeros(MIB // 4, device="tpu")
    assert torch.tpu.memory_allocated() - before == MIB
    y = x + 1
    assert torch.tpu.memory_allocated() - before == 2 * MIB
    del x, y
    assert torch.tpu.memory_allocated() == before
    assert torch.tpu.max_memory_allocated() - before == 2 * MIB
    torch.tpu.reset_peak_memory_stats()
    assert torch.tpu.max_memory_allocated() == before


def test_devices_are_counted_apart():
    before = torch.tpu.memory_allocated(0), torch.tpu.memory_allocated("tpu:1")
    x = torch.zeros(MIB // 4, device="tpu:1")
    assert torch.tpu.memory_allocated(0) == before[0]
    assert torch.tpu.memory_allocated(1) - before[1] == x.nbytes


def test_views_and_in_place_writes_hold_no_more():
    x = torch.zeros(MIB // 4, device="tpu")
    before = torch.tpu.memory_allocated()
    view = x.view(2, -1)[0]
    view.add_(1)
    torch.tpu.synchronize()
    assert torch.tpu.memory_allocated() == before


def test_stats_have_cudas_keys():
    x = torch.zeros(MIB // 4, device="tpu")
    stats = torch.tpu.memory_stats()
    for figure in ("current", "peak", "allocated", "freed"):
        assert f"allocated_bytes.all.{figure}" in stats
        assert f"reserved_bytes.all.{figure}" in stats
    assert stats["allocated_bytes.all.current"] == torch.tpu.memory_allocated() >= x.nbytes
    assert stats["allocation.all.current"] >= 1
    assert stats["num_ooms"] == stats["num_alloc_retries"] == 0
    nested = torch.tpu.memory_stats_as_nested_dict()
    assert nested["allocated_bytes"]["all"]["current"] == torch.tpu.memory_allocated()
    assert torch.tpu.memory_reserved() == torch.tpu.memory_cached() == torch.tpu.memory_allocated()


def test_accumulated_totals():
    torch.tpu.reset_accumulated_memory_stats()
    del_me = torch.zeros(MIB // 4, device="tpu")
    del del_me
    stats = torch.tpu.memory_stats()
    assert stats["allocated_bytes.all.allocated"] >= MIB
    assert stats["allocated_bytes.all.freed"] >= MIB


def test_accelerator_agrees():
    x = torch.zeros(MIB // 4, device="tpu")
    assert torch.accelerator.memory_allocated() == torch.tpu.memory_allocated() >= x.nbytes
    assert torch.accelerator.memory_stats()["allocated_bytes.all.current"] >= x.nbytes
    torch.accelerator.reset_peak_memory_stats()
    torch.accelerator.empty_cache()


def test_info_and_summary():
    free, total = torch.tpu.mem_get_info()
    assert 0 < free <= total == torch.tpu.get_device_properties(0).total_memory
    summary = torch.tpu.memory_summary()
    assert "Allocated memory" in summary and "Allocations" in summary
    assert "Allocations" not in torch.tpu.memory_summary(abbreviated=True)
    torch.tpu.empty_cache()


def test_out_of_memory_error_is_torchs():
    assert torch.tpu.OutOfMemoryError is torch.OutOfMemoryError


def test_nothing_is_loaded_to_report_nothing(run_python):
    code = """
import torch
print(torch.tpu.memory_allocated(), torch.tpu.max_memory_reserved(), dict(torch.tpu.memory_stats()))
torch.tpu.empty_cache(); torch.tpu.reset_peak_memory_stats()
print(torch.tpu.is_initialized())
"""
    assert run_python(code) == "0 0 {}\nFalse"
