"""Train steps in strict mode beside jax.jit and CPU PyTorch, and how much of them is overhead.

python benchmarks/training.py [gpt|resnet|mlp ...]
"""

from __future__ import annotations

import sys
from typing import Any

import measure
import models
import program_times
import torch
from jax_peer import JaxPeer

from torch_tpu import diagnostics

ROUNDS = 7
REPEATS = {"gpt": 1, "resnet": 1, "mlp": 10}
WARM_UP = 3
FORMS = {"default": None, "fused": True}
MODES = {"tpu": "strict", "cpu": "cpu"}
BOUNDS = {"strict / programs": "(<= 1.3)", "strict / jax.jit": "(<= 1.5)", "strict / cpu": ""}


def _case(step: Any, device: str, repeats: int) -> measure.Case:
    return lambda: measure.seconds(step, measure.WAIT[device], repeats)


def _steps(name: str) -> dict[tuple[str, str], Any]:
    """By device and optimizer form: a step that has run often enough to be steady."""
    steps = {
        (device, form): models.train_step(name, device, fused)[0]
        for device in MODES
        for form, fused in FORMS.items()
    }
    for step in steps.values():
        for _ in range(WARM_UP):
            step()
    return steps


def measured(name: str) -> dict[str, Any]:
    repeats = REPEATS[name]
    steps = _steps(name)
    watched = {key: program_times.Watched(step, key[0]) for key, step in steps.items()}
    cases: dict[str, measure.Case] = {}
    for (device, form), step in steps.items():
        cases[f"{MODES[device]}, {form} AdamW"] = _case(step, device, repeats)
        cases[f"{MODES[device]} programs, {form} AdamW"] = watched[device, form].seconds
    with JaxPeer(name) as jax:
        cases["jax.jit"] = lambda: jax.seconds(repeats)
        jax.seconds(WARM_UP)
        times = measure.rounds_of(cases, ROUNDS)
    diagnostics.reset_counters()
    steps["tpu", "default"]()
    torch.tpu.synchronize()
    calls = {device: watched[device, "default"].calls(ROUNDS) for device in MODES}
    return {
        "ms": measure.medians(times, 1e3),
        "strict / programs": _ratios(times, "strict programs, {} AdamW"),
        "strict / jax.jit": _ratios(times, "jax.jit"),
        "strict / cpu": _ratios(times, "cpu, {} AdamW"),
        "per step": {
            key: diagnostics.counters()[key] for key in ("ops", "executions", "python_entries")
        },
        "slowest": program_times.slowest(calls["tpu"], calls["cpu"]),
    }


def _ratios(times: dict[str, list[float]], below: str) -> dict[str, float]:
    return {
        form: measure.ratio(times, f"strict, {form} AdamW", below.format(form)) for form in FORMS
    }


def _rows(figures: dict[str, Any]) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = list(figures["ms"].items())
    for ratio, bound in BOUNDS.items():
        for form, value in figures[ratio].items():
            rows.append((f"{ratio}, {form} AdamW  {bound}", value))
    rows += list(figures["per step"].items())
    rows.append(("slowest calls", "calls", "ms each", "cpu"))
    for each in figures["slowest"]:
        label = f"{each['op'].removeprefix('aten.')[:22]} {each['shapes'][:20]}"
        rows.append((label, each["calls"], each["ms"], each["cpu_ms"] or "-"))
    return rows


def main() -> None:
    for name in sys.argv[1:] or models.TRAININGS:
        figures = measured(name)
        measure.report(f"train_{name}", figures, _rows(figures), "ms per step")


if __name__ == "__main__":
    main()
