"""Eager modes in turn, in one process: what is compared ran within the same second."""

from __future__ import annotations

import time
from collections.abc import Callable

import measure
import torch

from torch_tpu import _C, diagnostics

Step = Callable[[], object]

BLOCK_SECONDS = 0.05
QUIET_STEPS, MOST_STEPS = 3, 50


def wait_for_programs() -> None:
    """Makes fused mode wait for each new program, so that a warm-up ends when it seems to."""
    _C.set_async_compile(False)


def _made_and_run() -> tuple[int, int]:
    """How many programs were made so far, and how many were run."""
    counted = diagnostics.counters()
    made = counted["compiles"] + counted["lowerings"] + counted["disk_hits"]
    return made, counted["executions"]


def warm_up(step: Step, mode: str) -> None:
    """Runs a step until several in a row needed no new program.

    Raises RuntimeError if that does not happen, or if such a step runs no program: fused mode
    computes nothing that nobody wants.
    """
    quiet = 0
    with torch.tpu.set_eager_mode(mode):
        for _ in range(MOST_STEPS):
            made_before, run_before = _made_and_run()
            step()
            torch.tpu.synchronize()
            made, run = _made_and_run()
            quiet = quiet + 1 if made == made_before else 0
            if run == run_before:
                raise RuntimeError(f"a step in {mode} mode runs no program")
            if quiet == QUIET_STEPS:
                return
    raise RuntimeError(f"{mode} mode still makes programs after {MOST_STEPS} steps")


def case(step: Step, mode: str, repeats: int = 1) -> measure.Case:
    """Seconds of a step, after one that is not timed: the first since the other mode ran."""

    def run() -> float:
        with torch.tpu.set_eager_mode(mode):
            step()
            torch.tpu.synchronize()
            return measure.seconds(step, torch.tpu.synchronize, repeats)

    return run


def modes(make: Callable[[], Step], *names: str) -> dict[str, measure.Case]:
    """A case per mode, warm, each with a step of its own and as many repeats as the others."""
    steps = {}
    for name in names:
        with torch.tpu.set_eager_mode(name):
            steps[name] = make()
        warm_up(steps[name], name)
    once = max(case(step, name)() for name, step in steps.items())
    repeats = max(1, int(BLOCK_SECONDS / once))
    return {name: case(step, name, repeats) for name, step in steps.items()}


def rounds_for(
    cases: dict[str, measure.Case], seconds: float, least: int
) -> dict[str, list[float]]:
    """Rounds of all cases for some seconds, at least ``least``; every other one in reverse order.

    The order alternates because what runs second finds the processor warm.
    """
    times: dict[str, list[float]] = {name: [] for name in cases}
    order = list(cases)
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times[order[0]]) < least:
        for name in order:
            times[name].append(cases[name]())
        order.reverse()
    return times
