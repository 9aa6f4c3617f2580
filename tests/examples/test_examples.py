"""The examples train, say what they did, and lose the same on both devices."""

import importlib.util
import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
SMALL_GPT = ("--layers", "2", "--width", "64", "--context", "32", "--characters", "8")


@pytest.fixture
def run_example(tmp_path):
    """Runs an example as a user does, from another folder, and returns what it printed."""

    def run(name, *options):
        return subprocess.run(
            [sys.executable, EXAMPLES / name, *options],
            capture_output=True,
            text=True,
            timeout=240,
            cwd=tmp_path,
            env=os.environ | {"OMP_NUM_THREADS": "1", "TORCH_TPU_FALLBACK": "error"},
        )

    return run


@pytest.fixture(scope="module")
def compare():
    spec = importlib.util.spec_from_file_location("compare", EXAMPLES / "compare.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("script", "options"),
    [
        ("digits.py", ()),
        pytest.param("digits.py", ("--compile",), marks=pytest.mark.slow),
        pytest.param("char_gpt.py", SMALL_GPT, marks=pytest.mark.slow),
        ("char_gpt.py", (*SMALL_GPT, "--compile")),
    ],
    ids=("digits", "digits compiled", "char_gpt", "char_gpt compiled"),
)
def test_the_first_20_losses_are_the_same_on_both_devices(run_example, script, options):
    done = run_example("compare.py", EXAMPLES / script, "--steps", "20", *options)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = re.findall(r"^ *(\d+)  +(\d+\.\d+)  +(\d+\.\d+)$", done.stdout, re.MULTILINE)
    assert [int(step) for step, _, _ in rows] == list(range(20))
    assert all(0 < float(on_tpu) < 10 for _, _, on_tpu in rows)
    assert rows[-1][2] < rows[0][2], "it learned nothing"


def test_the_comparison_sees_a_difference_and_a_nan(compare):
    assert compare.difference([2.0, 4.0], [2.0, 5.0]) == pytest.approx(0.2)
    assert math.isnan(compare.difference([2.0, math.nan, 1.0], [2.0, 5.0, 1.0]))
    with pytest.raises(ValueError, match="shorter"):
        compare.difference([2.0, 4.0], [2.0])


def test_the_comparison_fails_when_losses_differ(compare, monkeypatch, capsys):
    curves = {"cpu": [2.0, 1.0], "tpu": [2.0, 1.002]}
    monkeypatch.setattr(compare, "losses", lambda script, options, device: curves[device])
    monkeypatch.setattr(sys, "argv", ["compare.py", "any.py"])
    with pytest.raises(SystemExit) as exit:
        compare.main()
    assert exit.value.code == 1
    assert "2.0e-03" in capsys.readouterr().out


def test_the_digits_are_read_right_97_times_out_of_100(run_example, tmp_path, monkeypatch):
    monkeypatch.setenv("TORCH_TPU_CACHE", "off")  # the table counts what is compiled
    losses = tmp_path / "losses.json"
    done = run_example("digits.py", "--steps", "150", "--losses", losses)
    assert done.returncode == 0, done.stderr
    table = dict(re.split(" {2,}", line, maxsplit=1) for line in done.stdout.splitlines())
    assert float(table["test accuracy"].rstrip("%")) >= 97
    assert table["device"] == "tpu (CPU (PJRT))"
    assert table["fallbacks"] == "0"
    recorded, compiled, hits = (
        int(table[name].replace(",", ""))
        for name in ("ops recorded", "programs compiled", "cache hits")
    )
    assert recorded >= hits > 20 * compiled > 0
    assert len(json.loads(losses.read_text())) == 150
    assert "150/150" in done.stderr and "loss=" in done.stderr


def test_debug_mode_gives_the_losses_of_strict_mode(run_example, tmp_path):
    curves = []
    for mode in ("strict", "debug"):
        losses = tmp_path / f"{mode}.json"
        done = run_example("digits.py", "--steps", "5", "--mode", mode, "--losses", losses)
        assert done.returncode == 0, done.stderr
        curves.append(json.loads(losses.read_text()))
    assert curves[0] == curves[1]


def test_the_gpt_continues_its_prompt(run_example):
    done = run_example("char_gpt.py", "--steps", "2", *SMALL_GPT)
    assert done.returncode == 0, done.stderr
    given, written = re.fullmatch(
        r"--- given\n(.*)\n--- written\n(.*)\n---\n.*", done.stdout, re.DOTALL
    ).groups()
    assert (len(given), len(written)) == (32, 8)
