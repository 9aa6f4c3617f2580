"""What every test shares: two CPU devices, settings that don't leak, Python in a fresh process."""

import gc
import os
import subprocess
import sys

# Read when the device is first used, so that tests of several devices have them.
os.environ.setdefault("TORCH_TPU_CPU_DEVICES", "2")
# Not the user's own cache; the workers of one run share what they compile.
os.environ.setdefault("TORCH_TPU_CACHE_DIR", os.path.abspath("build/test-cache"))

import pytest
import torch

import torch_tpu  # noqa: F401  # a checkout without an entry point registers here

# Every test begins in this mode: TORCH_TPU_TEST_MODE=fused runs the whole suite under fusion.
MODE = os.environ.get("TORCH_TPU_TEST_MODE", "strict")
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

# These run first: a long file that begins last leaves one worker waiting for the other.
LONGEST = (
    "conformance/test_op_db.py",
    "test_docs.py",
    "accelerator/test_modes.py",
    "dynamo/test_warm_start.py",
    "examples/test_examples.py",
    "dynamo/test_missing_rules.py",
    "dynamo/test_generate.py",
)


def pytest_collection_modifyitems(items):
    places = {os.path.join(ROOT, "tests", name): place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(str(item.path), len(places)))


def pytest_collection_finish():
    """What imports and collection made stays: the collector need not look at it every time."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def run_python():
    """Runs code in a fresh interpreter and returns what it printed.

    ``error=True`` expects it to fail, and returns its standard error.
    """

    def run(code, *, error=False, quiet=True, **environment):
        inherited = {key: value for key, value in os.environ.items() if "TORCH_TPU" not in key}
        inherited["TORCH_TPU_CACHE_DIR"] = os.environ["TORCH_TPU_CACHE_DIR"]
        inherited |= {"OMP_NUM_THREADS": "1", **environment}
        done = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            timeout=300,
            cwd=ROOT,
            env=inherited,
        )
        if error:
            assert done.returncode > 0, f"expected an exception: {done}"
            return done.stderr
        assert done.returncode == 0, done.stderr
        if quiet:
            assert done.stderr == ""
        return done.stdout.strip()

    return run


@pytest.fixture(autouse=True)
def settings():
    """Puts back what a test may change for the whole process, and seeds what it draws."""
    torch.manual_seed(0)
    precision = torch.get_float32_matmul_precision()
    if hasattr(torch, "tpu"):
        torch.tpu.set_eager_mode(MODE)
    yield
    torch.set_float32_matmul_precision(precision)
    if hasattr(torch, "tpu"):
        torch.tpu.set_eager_mode(MODE)
        if torch.tpu.current_device() != 0:
            torch.tpu.set_device(0)


@pytest.fixture
def strict(settings):
    """For promises of strict mode alone, such as what one op costs at once."""
    torch.tpu.set_eager_mode("strict")
