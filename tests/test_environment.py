"""The table of environment variables: parsing, errors, and the page made from it."""

import re
from pathlib import Path

import pytest

from torch_tpu import environment

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("TORCH_TPU_CPU_DEVICES", "8", 8),
        ("TORCH_TPU_LAUNCH_BLOCKING", "1", True),
        ("TORCH_TPU_LAUNCH_BLOCKING", "False", False),
        ("TORCH_TPU_LAUNCH_BLOCKING", "", False),
        ("TORCH_TPU_PLATFORM", " CPU ", "cpu"),
        ("TORCH_TPU_FALLBACK", "error", "error"),
    ],
)
def test_values(monkeypatch, name, text, value):
    monkeypatch.setenv(name, text)
    assert environment.read(name) == value


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("TORCH_TPU_CPU_DEVICES", "0", "a whole number from 1 on"),
        ("TORCH_TPU_CPU_DEVICES", "two", "a whole number from 1 on"),
        ("TORCH_TPU_LAUNCH_BLOCKING", "perhaps", "0 or 1"),
        ("TORCH_TPU_EAGER_MODE", "quick", "one of strict, fused, debug"),
    ],
)
def test_mistakes(monkeypatch, name, text, expected):
    monkeypatch.setenv(name, text)
    message = re.escape(f"{name}={text!r} is not understood: expected {expected}")
    with pytest.raises(ValueError, match=message):
        environment.read(name)


def test_defaults(monkeypatch):
    for name, variable in environment.VARIABLES.items():
        monkeypatch.delenv(name, raising=False)
        assert environment.read(name) == variable.default


def test_the_page_is_current():
    assert (ROOT / environment.PAGE).read_text() == environment.page()


def test_every_variable_that_the_code_names_is_in_the_table():
    files = [*ROOT.glob("torch_tpu/**/*.py"), *ROOT.glob("csrc/**/*.[ch]*"), ROOT / "setup.py"]
    named = {
        name for file in files for name in re.findall(r"TORCH_TPU_[A-Z_]+\b", file.read_text())
    }
    assert named - {"TORCH_TPU_"} <= environment.VARIABLES.keys()
