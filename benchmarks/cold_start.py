"""How long a fresh process takes to its first training steps, and how many programs it compiles."""

from __future__ import annotations

import json
import subprocess
import sys
import time

import measure
import models
from jax_peer import JaxPeer

STEPS = 4


def child(name: str) -> None:
    """Prints seconds from importing torch to the end of each step, and the counters."""
    start = time.perf_counter()
    import torch

    imported = time.perf_counter() - start
    from torch_tpu import diagnostics

    step, _ = models.train_step(name, "tpu")
    ends = []
    for _ in range(STEPS):
        step()
        torch.tpu.synchronize()
        ends.append(time.perf_counter() - start)
    print(json.dumps({"import": imported, "steps": ends, **diagnostics.counters()}))


def cold(name: str) -> dict[str, float]:
    """Of a process of its own, the interpreter's start included."""
    start = time.perf_counter()
    command = [sys.executable, __file__, name]
    with measure.fresh_cache():
        answer = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    whole = time.perf_counter() - start
    with JaxPeer(name) as jax:
        jax_first = jax.first
    return {
        "first step, s": answer["steps"][0],
        f"{STEPS} steps, s": answer["steps"][-1],
        "process, s": whole,
        "jax.jit first step, s": jax_first,
        "programs": answer["compiles"],
        "s per program": answer["steps"][-1] / answer["compiles"],
    }


def main() -> None:
    figures = {name: cold(name) for name in models.TRAININGS}
    labels = next(iter(figures.values()))
    rows = [("", *figures)]
    rows += [(label, *(each[label] for each in figures.values())) for label in labels]
    measure.report("cold_start", figures, rows, "a fresh process")


if __name__ == "__main__":
    child(sys.argv[1]) if len(sys.argv) > 1 else main()
