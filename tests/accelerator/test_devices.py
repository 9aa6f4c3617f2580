"""Devices: how many, which is current, what torch.accelerator and integers mean by them."""

import pytest
import torch


def test_count_and_availability():
    assert torch.tpu.is_available() and torch.tpu.device_count() == 2
    assert torch.accelerator.is_available() and torch.accelerator.device_count() == 2
    assert torch.accelerator.current_accelerator() == torch.device("tpu")


@pytest.mark.parametrize("one", [1, "tpu:1", torch.device("tpu", 1)])
def test_set_device(one):
    torch.tpu.set_device(one)
    assert torch.tpu.current_device() == torch.accelerator.current_device_index() == 1
    assert torch.ones(1, device="tpu").device == torch.device("tpu", 1)
    torch.tpu.set_device(-1)
    assert torch.tpu.current_device() == 1
    torch.accelerator.set_device_index(0)
    assert torch.tpu.current_device() == 0


def test_device_contexts():
    with torch.tpu.device(1):
        assert torch.tpu.current_device() == 1
        with torch.tpu.device(None):
            assert torch.tpu.current_device() == 1
    assert torch.tpu.current_device() == 0
    with torch.tpu.device_of(torch.ones(1, device="tpu:1")):
        assert torch.tpu.current_device() == 1
    with torch.tpu.device_of(torch.ones(1)):
        assert torch.tpu.current_device() == 0
    with torch.device("tpu:1"):
        assert torch.ones(1).device == torch.device("tpu", 1)


def test_context_restores_after_an_error():
    with pytest.raises(KeyError), torch.tpu.device(1):
        raise KeyError
    assert torch.tpu.current_device() == 0


def test_a_device_that_does_not_exist():
    with pytest.raises(RuntimeError, match="invalid device ordinal 7"):
        torch.tpu.set_device(7)
    with pytest.raises(RuntimeError, match="invalid device ordinal 7"):
        torch.ones(1, device="tpu:7")
    with pytest.raises(ValueError, match="Expected a tpu device"):
        torch.tpu.synchronize("cpu")
    assert torch.tpu.current_device() == 0


def test_integers_are_tpu_devices():
    assert torch.ones(1).to(1).device == torch.device("tpu", 1)
    assert torch.ones(1, device=0).device == torch.device("tpu", 0)
    assert torch.nn.Linear(1, 1).to(1).weight.device == torch.device("tpu", 1)
    assert torch.device(1) == torch.device("tpu", 1)


def test_synchronize():
    torch.ones(4, device="tpu:1").sum()
    torch.tpu.synchronize()
    torch.tpu.synchronize("tpu:1")
    torch.accelerator.synchronize()


def test_counting_does_not_load_the_plugin(run_python):
    code = """
import torch
print(torch.tpu.is_available(), torch.tpu.device_count(), torch.tpu.is_initialized())
torch.ones(1, device="tpu")
print(torch.tpu.device_count(), torch.tpu.is_initialized())
"""
    assert run_python(code, TORCH_TPU_CPU_DEVICES="3") == "True 3 False\n3 True"


def test_forked_child_is_told_to_spawn(run_python):
    code = """
import os, torch
torch.ones(1, device="tpu")
if os.fork() == 0:
    print(torch.tpu._is_in_bad_fork(), torch.tpu.is_initialized())
    try:
        torch.ones(1, device="tpu")
    except RuntimeError as error:
        print("spawn" in str(error), flush=True)
    os._exit(0)
print(os.waitstatus_to_exitcode(os.wait()[1]))
"""
    assert run_python(code, quiet=False) == "True False\nTrue\n0"
