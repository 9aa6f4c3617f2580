"""Which plugin serves the device, in machines that are made of files and in fresh processes."""

import os

import pytest

from torch_tpu import runtime

WHICH = "from torch_tpu import runtime; print(*runtime.resolve())"


def machine(root, chips=(), nodes=()):
    for number, (vendor, device) in enumerate(chips):
        folder = root / "sys/bus/pci/devices" / f"0000:00:{number:02x}.0"
        folder.mkdir(parents=True)
        (folder / "vendor").write_text(f"{vendor:#06x}\n")
        (folder / "device").write_text(f"{device:#06x}\n")
    for node in nodes:
        path = root / "dev" / node
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return root


GOOGLE, OTHER = 0x1AE0, 0x10DE


@pytest.mark.parametrize(
    ("chips", "nodes", "found"),
    [
        ([], [], []),
        ([(GOOGLE, 0x0063)] * 2, ["vfio/0", "vfio/1", "vfio/vfio"], ["TPU v5e"] * 2),
        ([(GOOGLE, 0x005E)], ["accel0"], ["TPU v4"]),
        ([(GOOGLE, 0x0076)], ["vfio/0"], ["TPU v7"]),
        ([(GOOGLE, 0x0042), (OTHER, 0x0063)], ["vfio/0"], []),
        ([(GOOGLE, 0x0063)], ["vfio/vfio"], []),
        ([], ["accel0", "accel1"], ["TPU", "TPU"]),
        ([], ["accel/accel0"], []),
    ],
    ids=["none", "v5e", "v4", "v7", "other-devices", "not-given", "hidden-bus", "other-drivers"],
)
def test_chips_are_found_on_the_bus(tmp_path, chips, nodes, found):
    assert runtime.detect_chips(machine(tmp_path, chips, nodes)) == found


@pytest.mark.skipif(runtime.has_tpu_nodes(), reason="a machine with a TPU chooses it")
def test_the_cpu_plugin_serves_by_default(run_python):
    path, options = run_python(WHICH, TORCH_TPU_CPU_DEVICES="3").split(" ", 1)
    assert os.path.basename(path) == "pjrt_c_api_cpu_plugin.so"
    assert options == "{'cpu_device_count': 3}"


def test_a_plugin_can_be_named(run_python):
    path = str(runtime.PLUGINS["cpu"].path())
    assert run_python(WHICH, TORCH_TPU_PJRT_PLUGIN=path).startswith(path)
    stderr = run_python(WHICH, TORCH_TPU_PJRT_PLUGIN="/nowhere.so", error=True)
    assert "TORCH_TPU_PJRT_PLUGIN='/nowhere.so': there is no such file" in stderr


def test_a_missing_plugin_names_the_extra(monkeypatch):
    monkeypatch.setenv("TORCH_TPU_PLATFORM", "cpu")
    monkeypatch.setattr(runtime, "_package_folders", lambda module: [])
    with pytest.raises(RuntimeError, match=r"pip install 'torch_tpu\[cpu\]'"):
        runtime.plugin_path()


def test_no_plugin_means_no_device_and_no_exception(run_python):
    code = """
import torch
from torch_tpu import runtime
runtime._package_folders = lambda module: []
print(torch.tpu.is_available(), torch.tpu.device_count())
torch.manual_seed(0)
try:
    torch.ones(1, device="tpu")
except RuntimeError as error:
    print("torch_tpu[cpu]" in str(error))
"""
    assert run_python(code, TORCH_TPU_PLATFORM="cpu") == "False 0\nTrue"


@pytest.mark.skipif(runtime.has_tpu_nodes(), reason="this machine has a TPU")
def test_a_tpu_that_is_not_there_is_refused_before_libtpu_loads(run_python, tmp_path):
    library = tmp_path / "libtpu.so"
    library.touch()
    code = """
import os
from torch_tpu import runtime
try:
    runtime.resolve()
except RuntimeError as error:
    print("No TPU is attached" in str(error), os.environ["TPU_SKIP_MDS_QUERY"])
"""
    assert run_python(code, TORCH_TPU_PJRT_PLUGIN=str(library)) == "True 1"


def test_a_wrong_platform_is_an_error_that_lists_the_right_ones(run_python):
    stderr = run_python(WHICH, TORCH_TPU_PLATFORM="gpu", error=True)
    assert "TORCH_TPU_PLATFORM='gpu' is not understood: expected one of auto, cpu" in stderr
