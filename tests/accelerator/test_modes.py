"""Eager modes, precision and the debugging switches: set at once, restored by ``with``."""

import pytest
import torch

import torch_tpu
from torch_tpu import _C, debug
from torch_tpu.accelerator.modes import EagerMode, Precision, environment_mode

STRICT, FUSED, DEBUG = (
    EagerMode.DEFER_NEVER,
    EagerMode.DEFER_AND_FUSE,
    EagerMode.DEFER_NEVER_AND_LAUNCH_BLOCKING,
)
PRINT_MODE = "import torch; print(torch.tpu.eager_mode.value)"


pytestmark = pytest.mark.usefixtures("strict")


@pytest.mark.parametrize(
    ("name", "mode"),
    [
        (DEBUG, DEBUG), ("debug", DEBUG), ("DEBUG", DEBUG), (DEBUG.name, DEBUG),
        (FUSED, FUSED), ("fused", FUSED), ("FUSED", FUSED), (FUSED.name, FUSED),
    ],
)  # fmt: skip
def test_setting_the_mode(name, mode):
    assert torch.tpu.eager_mode is STRICT
    torch.tpu.set_eager_mode(name)
    assert torch.tpu.eager_mode is mode
    with torch_tpu.set_eager_mode("strict"):
        assert torch.tpu.eager_mode is STRICT
    assert torch.tpu.eager_mode is mode


def test_decorating_a_function():
    @torch.tpu.set_eager_mode("debug")
    def mode():
        return torch.tpu.eager_mode

    assert (torch.tpu.eager_mode, mode(), torch.tpu.eager_mode) == (STRICT, DEBUG, STRICT)


def test_mistakes():
    with pytest.raises(ValueError, match="'strict', 'fused', 'debug', but got 'quick'"):
        torch.tpu.set_eager_mode("quick")
    assert torch.tpu.eager_mode is STRICT


VARIABLES = (
    "TORCH_TPU_EAGER_MODE",
    "TORCH_TPU_LAUNCH_BLOCKING",
    "TORCH_TPU_DEFER_AND_FUSE",
    "XLA_TPU_EAGER_FUSE_MODE",
)


@pytest.mark.parametrize(
    ("mode", "values"),
    [
        (DEBUG, ("debug", None, None, None)),
        (DEBUG, (None, "1", None, None)),
        (DEBUG, ("DEBUG", None, "1", None)),
        (DEBUG, (None, "1", None, "1")),
        (FUSED, ("fused", None, None, None)),
        (FUSED, ("fused", "1", None, None)),
        (FUSED, (None, None, "1", None)),
        (FUSED, (None, None, None, "1")),
        (None, (None, None, None, "0")),
    ],
)
def test_environment_asks_for_a_mode(monkeypatch, mode, values):
    for name, value in zip(VARIABLES, values, strict=True):
        monkeypatch.delenv(name, raising=False)
        if value is not None:
            monkeypatch.setenv(name, value)
    assert environment_mode() is mode


def test_fused_from_the_environment_defers_ops(run_python):
    code = """
import torch, torch_tpu
x = torch.ones(3, device="tpu")
for _ in range(5):
    x = x + 1
print(torch_tpu.diagnostics.counters()["executions"], x.tolist())
"""
    assert run_python(code, XLA_TPU_EAGER_FUSE_MODE="1") == "0 [6.0, 6.0, 6.0]"


def test_python_beats_the_environment(run_python):
    code = f"{PRINT_MODE}; torch.tpu.set_eager_mode('strict'); {PRINT_MODE}"
    assert run_python(code, TORCH_TPU_EAGER_MODE="debug") == "debug\nstrict"


@pytest.mark.parametrize("mode", ["debug", "fused"])
def test_results_are_those_of_strict_mode(mode):
    x = torch.arange(6.0, device="tpu").reshape(2, 3)
    expected = (x @ x.T).relu().cpu()
    with torch.tpu.set_eager_mode(mode):
        assert torch.equal((x @ x.T).relu().cpu(), expected)


@pytest.mark.parametrize(
    ("value", "word"), [("default", "medium"), (Precision.HIGH, "high"), ("highest", "highest")]
)
def test_precision_is_torchs_setting(value, word):
    assert torch.get_float32_matmul_precision() == "highest"
    with torch.tpu.precision(value):
        assert torch.get_float32_matmul_precision() == word
    assert torch.get_float32_matmul_precision() == "highest"


def programs_got():
    counted = _C.counters()
    return sum(counted[name] for name in ("compiles", "disk_hits", "shared_hits"))


PRECISIONS = ["highest", "high", "medium"]
WAYS = ["strict", "debug", "fused", "compiled"]


@pytest.mark.parametrize("way", WAYS)
def test_another_precision_is_another_program_and_the_first_one_is_kept(way):
    size = 31 + WAYS.index(way)  # debug mode runs the programs of strict mode
    matrix = torch.randn(size, size, device="tpu")
    multiply = torch.compile(torch.mm) if way == "compiled" else torch.mm
    made = []
    with torch.tpu.set_eager_mode("strict" if way == "compiled" else way):
        for precision in (*PRECISIONS, *PRECISIONS):
            torch.set_float32_matmul_precision(precision)
            before = programs_got()
            multiply(matrix, matrix).cpu()
            made.append(programs_got() - before)
    assert min(made[:3]) > 0 and made[3:] == [0, 0, 0]


FLAGS = {
    "pass": "highest",
    "torch.backends.fp32_precision = 'tf32'": "high",
    "torch.backends.fp32_precision = 'bf16'": "default",
    "torch.backends.fp32_precision = 'ieee'": "highest",
    "torch.backends.cuda.matmul.fp32_precision = 'tf32'": "high",
    "torch.backends.cuda.matmul.allow_tf32 = True": "high",
    "torch.backends.cudnn.allow_tf32 = True": "highest",
    "torch.backends.cudnn.benchmark = torch.backends.cudnn.deterministic = True": "highest",
    "torch.set_float32_matmul_precision('medium')": "default",
    "torch.set_float32_matmul_precision('high'); torch.backends.cuda.matmul.allow_tf32 = False":
        "highest",
    "torch.backends.fp32_precision = 'tf32'; torch.set_float32_matmul_precision('highest')":
        "highest",
}  # fmt: skip


def test_flags_that_are_known_from_cuda_mean_this_device(run_python):
    """Each in a process of its own, forked after the imports, as PyTorch keeps their history.

    Some mix PyTorch's older and newer settings, which its own getter refuses to look at.
    """
    code = f"""
import os, sys, warnings
warnings.simplefilter("ignore")
import torch, torch._dynamo
import torch_tpu.compiler.building
for flags in {list(FLAGS)}:
    child = os.fork()
    if not child:
        exec(flags)
        x = torch.ones(2, 2, device="tpu")
        print((x @ x).sum().item(), torch.compile(torch.mm)(x, x).sum().item(), end=" ")
        print(torch.tpu.precision.get().value)
        sys.stdout.flush()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0, flags
"""
    printed = run_python(code, quiet=False).splitlines()
    assert dict(zip(FLAGS, printed, strict=True)) == {
        flags: f"8.0 8.0 {precision}" for flags, precision in FLAGS.items()
    }


def test_debug_switches():
    with debug.nan_checks():
        assert debug.nan_checks.get()
        with debug.nan_checks(False):
            assert not debug.nan_checks.get()
    assert not debug.nan_checks.get()


def test_nan_checks_name_the_op():
    x = torch.zeros(2, device="tpu")
    with (
        torch.tpu.set_eager_mode("debug"),
        debug.nan_checks(),
        pytest.raises(RuntimeError, match="div"),
    ):
        x / x


def test_op_printing(capfd):
    with torch.tpu.set_eager_mode("debug"), debug.print_ops():
        torch.ones(2, device="tpu").cos()
    assert "cos" in capfd.readouterr().err
    torch.ones(2, device="tpu").cos()
    assert capfd.readouterr().err == ""
