"""The time that the programs of a step take by themselves, op by op, and CPU PyTorch's for each.

A dispatch mode sees each ATen call and waits for the device around it. What a call that computes
next to nothing takes in the same way is the mode's, the recorder's and PJRT's own share; it is
taken off. Waking threads for each program anew is left in, so a sum can exceed the time of the
same step in strict mode, where programs follow one another without a wait: a ratio below one says
that the host's work is hidden behind the device's, not how little of it there is.
"""

from __future__ import annotations

import collections
import statistics
import time
from collections.abc import Callable
from typing import Any

import measure
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from torch_tpu import diagnostics

Call = tuple[str, str]


def _shape(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return "x".join(map(str, value.shape)) or "()"
    if isinstance(value, (list, tuple)) and any(isinstance(each, torch.Tensor) for each in value):
        return f"[{len(value)} tensors]"
    return ""


def _executions() -> int:
    return diagnostics.counters()["executions"]


class _Watch(TorchDispatchMode):
    """Times each call that runs a program; on the CPU each call there is."""

    def __init__(self, device: str) -> None:
        super().__init__()
        self.on_device = device == "tpu"
        self.wait = measure.WAIT[device]
        self.times: dict[Call, list[float]] = collections.defaultdict(list)

    def __torch_dispatch__(self, op: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        before = _executions() if self.on_device else 0
        self.wait()
        start = time.perf_counter()
        result = op(*args, **(kwargs or {}))
        self.wait()
        taken = time.perf_counter() - start
        if not self.on_device or _executions() > before:
            shapes = " ".join(filter(None, map(_shape, args)))
            self.times[str(op), shapes].append(taken)
        return result


def _least(device: str) -> float:
    """Seconds that a call takes under the watch when it has nothing to compute."""
    x = torch.ones(1, device=device)
    x + x
    with torch.no_grad(), _Watch(device) as watch:
        for _ in range(200):
            x + x
    (times,) = watch.times.values()
    return statistics.median(times)


class Watched:
    """Watches a step's calls, one step at a time, in turn with whatever else is measured."""

    def __init__(self, step: Callable[[], Any], device: str) -> None:
        self.step, self.watch = step, _Watch(device)
        self.least = _least(device)

    def seconds(self) -> float:
        """The sum of the programs' times in one step."""
        before = {call: len(times) for call, times in self.watch.times.items()}
        with self.watch:
            self.step()
        return sum(
            max(0.0, each - self.least)
            for call, times in self.watch.times.items()
            for each in times[before.get(call, 0) :]
        )

    def calls(self, steps: int) -> dict[Call, tuple[float, float]]:
        """For each kind of call: how often a step makes it, and the median seconds it takes."""
        return {
            call: (len(times) / steps, max(0.0, statistics.median(times) - self.least))
            for call, times in self.watch.times.items()
        }


def slowest(
    device: dict[Call, tuple[float, float]], cpu: dict[Call, tuple[float, float]], most: int = 10
) -> list[dict[str, Any]]:
    """The calls that take most of a step, with the CPU's time where it makes the same call."""
    ranked = sorted(device.items(), key=lambda item: -item[1][0] * item[1][1])
    return [
        {
            "op": call[0],
            "shapes": call[1],
            "calls": count,
            "ms": 1e3 * seconds,
            "cpu_ms": 1e3 * cpu[call][1] if call in cpu else None,
        }
        for call, (count, seconds) in ranked[:most]
    ]
