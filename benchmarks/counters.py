"""What the steady state promises: no Python, no compilation, whatever the numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import measure
import models
import torch

from torch_tpu import diagnostics

STEPS = 1000
COUNTED = ("ops", "executions", "memory_hits", "python_entries", "lowerings", "compiles")


def additions() -> Callable[[int], Any]:
    x, y = torch.ones(16, 16, device="tpu"), torch.ones(16, 16, device="tpu")
    return lambda step: x + y


def changing_alpha() -> Callable[[int], Any]:
    x = torch.ones(16, 16, device="tpu")
    return lambda step: torch.add(x, x, alpha=0.5 + step)


def changing_fill() -> Callable[[int], Any]:
    x = torch.ones(16, 16, device="tpu")
    return lambda step: x.fill_(0.5 + step)


def changing_rate(fused: bool) -> Callable[[int], Any]:
    """AdamW with another learning rate in each step."""
    weight = torch.ones(16, 16, device="tpu", requires_grad=True)
    weight.grad = torch.ones_like(weight)
    optimizer = torch.optim.AdamW([weight], fused=fused)

    def step(number: int) -> None:
        optimizer.param_groups[0]["lr"] = 1e-3 / (1 + number)
        optimizer.step()

    return step


def training() -> Callable[[int], Any]:
    step, _ = models.train_step("mlp", "tpu")
    return lambda number: step()


CASES: dict[str, tuple[Callable[[], Callable[[int], Any]], int]] = {
    "x + y": (additions, STEPS),
    "torch.add, another alpha each": (changing_alpha, STEPS),
    "fill_, another value each": (changing_fill, STEPS),
    "AdamW, another rate each": (lambda: changing_rate(False), STEPS // 10),
    "fused AdamW, another rate each": (lambda: changing_rate(True), STEPS // 10),
    "MLP train step": (training, STEPS // 20),
}


def steady(make: Callable[[], Callable[[int], Any]], steps: int) -> dict[str, int]:
    """How much each counter grows over steps that follow three of their kind."""
    step = make()
    for number in range(3):
        step(number)
    torch.tpu.synchronize()
    diagnostics.reset_counters()
    for number in range(3, 3 + steps):
        step(number)
    torch.tpu.synchronize()
    counted = diagnostics.counters()
    return {name: counted[name] for name in COUNTED}


def main() -> None:
    figures = {name: steady(*case) for name, case in CASES.items()}
    rows = [("", *COUNTED), *((name, *each.values()) for name, each in figures.items())]
    measure.report("counters", figures, rows, "counts in the steady state")
    for name, each in figures.items():
        assert each["ops"] > 0, name
        assert each["python_entries"] == each["compiles"] == 0, f"{name} is not steady: {each}"


if __name__ == "__main__":
    main()
