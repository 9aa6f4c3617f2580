"""The benchmarks of bounds run, judge their figures and write them down."""

import importlib
import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def run_benchmark(tmp_path):
    """Runs a benchmark as a user does; returns its table and the figures of its JSON file."""

    def run(script, result, *options):
        done = subprocess.run(
            [sys.executable, BENCHMARKS / script, *options, "--results", tmp_path],
            capture_output=True,
            text=True,
            timeout=240,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        )
        assert done.returncode == 0, done.stderr
        written = json.loads((tmp_path / f"{result}.json").read_text())
        assert written["machine"]["device"] == "CPU (PJRT)"
        return done.stdout, written["figures"]

    return run


@pytest.fixture(scope="module")
def bounds():
    sys.path.append(str(BENCHMARKS))
    try:
        yield importlib.import_module("bounds")
    finally:
        sys.path.remove(str(BENCHMARKS))


def test_a_bound_is_held_up_to_its_value_and_never_by_nan(bounds):
    def held(value, **bound):
        return bounds.Figure("", value, "", **bound).held

    assert held(2.0, least=2.0) and not held(1.9, least=2.0) and not held(math.nan, least=2.0)
    assert held(0.1, most=0.1) and not held(0.2, most=0.1) and not held(math.nan, most=0.1)
    assert held(7.0), "a figure without a bound"


def test_a_report_names_the_bounds_that_are_missed(bounds, tmp_path, capsys):
    figures = [bounds.Figure("slow", 3.0, "x", most=1.0), bounds.Figure("seen", 5.0, "ms")]
    bounds.report("some", figures, tmp_path)
    assert "missed: slow\n" in capsys.readouterr().out
    written = json.loads((tmp_path / "some.json").read_text())["figures"]
    assert written["slow"] == {"value": 3.0, "unit": "x", "bound": "<= 1", "held": False}
    assert written["seen"]["held"] is None


def test_fused_mode_is_compared_with_strict_mode(run_benchmark):
    options = ("speed", "--workloads", "small mlp", "--seconds", "0.1", "--pairs", "2")
    printed, figures = run_benchmark("fused.py", "fused_speed", *options)
    assert "small mlp: strict / fused" in printed
    assert figures["small mlp: strict / fused"]["bound"] == ">= 0.95"
    assert all(each["value"] > 0 for each in figures.values())


def test_a_second_process_neither_lowers_nor_compiles(run_benchmark):
    options = ("--model", "mlp", "--pairs", "1", "--modes", "fused")
    _, figures = run_benchmark("warm_start.py", "warm_start", *options)
    needed = {name: each["value"] for name, each in figures.items() if "second process:" in name}
    assert needed == {
        "fused, second process: lowerings": 0,
        "fused, second process: compiles": 0,
        "fused, second process: jax imported": 0,
    }
    assert figures["fused, first step: first process"]["value"] > 0


def test_a_call_of_a_compiled_function_is_timed_against_its_bound(run_benchmark):
    _, figures = run_benchmark("compiled.py", "compiled_overhead", "overhead", "--pairs", "1")
    (figure,) = figures.values()
    assert figure["value"] > 0 and figure["bound"] == "<= 60"
