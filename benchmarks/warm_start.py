"""The first train step of a process with an empty compile cache, and of the next process.

python benchmarks/warm_start.py [--model gpt] [--pairs 3]
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import bounds
import measure
import models
from bounds import Figure

MODES = ("strict", "fused")
MOST_OF_COLD = 0.1
# What the second process must do without.
COUNTED = ("lowerings", "compiles")


def child(name: str, mode: str) -> None:
    """Prints the first step's seconds, its loss and what the whole process needed for it."""
    import torch

    from torch_tpu import diagnostics

    with torch.tpu.set_eager_mode(mode):
        step, _ = models.train_step(name, "tpu")
        torch.tpu.synchronize()
        start = time.perf_counter()
        loss = step()
        torch.tpu.synchronize()
        seconds = time.perf_counter() - start
    needed = {each: diagnostics.counters()[each] for each in COUNTED}
    needed["jax imported"] = int("jax" in sys.modules)
    print(json.dumps({"seconds": seconds, "loss": loss.item(), "needed": needed}))


def _process(name: str, mode: str) -> dict[str, Any]:
    start = time.perf_counter()
    command = [sys.executable, __file__, "--child", name, mode]
    answer = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    return answer | {"process": time.perf_counter() - start}


def _cold_and_warm(name: str, mode: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Two processes, one after the other, that share a cache which is empty at first."""
    with measure.fresh_cache():
        return _process(name, mode), _process(name, mode)


def figures(name: str, mode: str, pairs: int) -> Iterator[Figure]:
    found = [_cold_and_warm(name, mode) for _ in range(pairs)]
    ratio = statistics.median(warm["seconds"] / cold["seconds"] for cold, warm in found)
    yield Figure(f"{mode}, first step: second / first", ratio, "x", most=MOST_OF_COLD)
    for place, process in enumerate(("first", "second")):
        for what, label in (("seconds", "first step"), ("process", "whole process")):
            seconds = statistics.median(each[place][what] for each in found)
            yield Figure(f"{mode}, {label}: {process} process", seconds, "s")
    for what in found[0][1]["needed"]:
        worst = max(warm["needed"][what] for _, warm in found)
        yield Figure(f"{mode}, second process: {what}", worst, "", most=0)
    differ = sum(cold["loss"] != warm["loss"] for cold, warm in found)
    yield Figure(f"{mode}, losses that differ", differ, "", most=0)


def main() -> None:
    parser = bounds.options(__doc__)
    parser.add_argument("--model", choices=models.TRAININGS, default="gpt")
    parser.add_argument("--pairs", type=int, default=3, help="how often both processes are run")
    parser.add_argument("--modes", nargs="+", choices=MODES, default=MODES)
    chosen = parser.parse_args()
    found = [each for mode in chosen.modes for each in figures(chosen.model, mode, chosen.pairs)]
    bounds.report("warm_start", found, chosen.results)


if __name__ == "__main__":
    child(*sys.argv[2:]) if sys.argv[1:2] == ["--child"] else main()
