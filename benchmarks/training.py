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
OVERHEAD_BOUND, JAX_BOUND = 1.3, 1.5


def _case(step: Any, device: str, repeats: int) -> measure.Case:
    return lambda: measure.seconds(step, measure.WAIT[device], repeats)


def _steps(name: str) -> dict[tuple[str, str], Any]:
    """By device and optimizer form: a step that has run often enough to be steady."""
    forms = {"default": None, "fused": True}
    steps = {
        (device, form): models.train_step(name, device, fused)[0]
        for device in ("tpu", "cpu")
        for form, fused in forms.items()
    }
    for step in steps.values():
        for _ in range(WARM_UP):
            step()
    return steps


def measured(name: str) -> dict[str, Any]:
    repeats = REPEATS[name]
    steps = _steps(name)
    with JaxPeer(name) as jax:
        cases = {
            f"{'strict' if device == 'tpu' else device}, {form} AdamW": _case(step, device, repeats)
            for (device, form), step in steps.items()
        }
        cases["jax.jit"] = lambda: jax.seconds(repeats)
        jax.seconds(WARM_UP)
        times = measure.interleaved(cases, ROUNDS)
    programs = {
        (device, form): program_times.of_step(step, device)
        for (device, form), step in steps.items()
    }
    diagnostics.reset_counters()
    steps["tpu", "default"]()
    torch.tpu.synchronize()
    sums = {form: program_times.total(programs["tpu", form]) for form in ("default", "fused")}
    return {
        "ms": {case: 1e3 * each for case, each in times.items()},
        "programs_ms": {form: 1e3 * each for form, each in sums.items()},
        "wall / programs": {
            form: times[f"strict, {form} AdamW"] / each for form, each in sums.items()
        },
        "strict / jax.jit": {
            form: times[f"strict, {form} AdamW"] / times["jax.jit"] for form in sums
        },
        "per step": {
            key: diagnostics.counters()[key] for key in ("ops", "executions", "python_entries")
        },
        "slowest": program_times.slowest(programs["tpu", "default"], programs["cpu", "default"]),
    }


def _rows(figures: dict[str, Any]) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = list(figures["ms"].items())
    for form in figures["programs_ms"]:
        rows += [
            (f"sum of the programs' times, {form}", figures["programs_ms"][form]),
            (f"wall / programs, {form}  (<= {OVERHEAD_BOUND})", figures["wall / programs"][form]),
            (f"strict / jax.jit, {form}  (<= {JAX_BOUND})", figures["strict / jax.jit"][form]),
        ]
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
