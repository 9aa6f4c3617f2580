"""Importing the package, or torch alone, makes a device; quietly, quickly and without JAX."""

import pytest
import torch

import torch_tpu

IMPORTED = """
import sys, torch
HEAVY = ("jax", "jaxlib", "numpy.testing", "libtpu", "lammps_jax_pjrt_cpu", "sympy",
         "torch._dynamo", "torch._inductor")
heavy = [name for name in HEAVY if name in sys.modules]
print(torch.device("tpu").type, heavy, torch.tpu.is_initialized())
print(any("pjrt" in line for line in open("/proc/self/maps")))
"""


@pytest.mark.parametrize("first", ["", "import torch_tpu\n"])
def test_import_registers_and_loads_nothing_heavy(run_python, first):
    assert run_python(first + IMPORTED) == "tpu [] False\nFalse"


def test_autoload_can_be_switched_off(run_python):
    code = "import torch, sys; print('torch_tpu' in sys.modules, hasattr(torch, 'tpu'))"
    assert run_python(code, TORCH_DEVICE_BACKEND_AUTOLOAD="0") == "False False"
    code = "import torch, torch_tpu; print(torch.device('tpu'), torch.tpu.device_count())"
    assert run_python(code, TORCH_DEVICE_BACKEND_AUTOLOAD="0") == "tpu 1"


def test_import_adds_little(run_python):
    code = """
import time, torch
start = time.process_time()
import torch_tpu
print((time.process_time() - start) * 1e3)
"""
    times = [float(run_python(code, TORCH_DEVICE_BACKEND_AUTOLOAD="0")) for _ in range(2)]
    assert min(times) < 150


def test_package():
    assert torch_tpu.__version__ == "0.1.0"
    assert torch_tpu.set_eager_mode is torch.tpu.set_eager_mode
    assert torch_tpu.diagnostics.counters().keys() >= {"ops", "executions", "compiles"}
    assert "debug" in dir(torch_tpu)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        torch_tpu.nothing  # noqa: B018


def test_submodules_are_importable_under_torch():
    import torch.tpu.amp
    import torch.tpu.memory

    import torch_tpu.accelerator.memory

    assert torch.tpu.memory is torch_tpu.accelerator.memory


def test_every_public_name_exists():
    for name in torch.tpu.__all__:
        assert hasattr(torch.tpu, name), name


def test_methods():
    x = torch.ones(2).tpu()
    assert x.is_tpu and x.device == torch.device("tpu", 0)
    assert torch.nn.Linear(2, 2).tpu().weight.is_tpu
    storage = torch.ones(2).untyped_storage().tpu()
    assert storage.is_tpu and not torch.ones(2).untyped_storage().is_tpu
