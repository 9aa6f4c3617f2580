"""How everything here is measured: interleaved rounds, medians, and a JSON file of figures."""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import torch

RESULTS = Path(__file__).parent / "results"
PACKAGES = ("torch", "torch_tpu", "jax", "jaxlib", "lammps-jax-pjrt-cpu", "libtpu")

# Seconds that one unit of a case took, measured by the case itself.
Case = Callable[[], float]


def seconds(step: Callable[[], object], wait: Callable[[], object], repeats: int = 1) -> float:
    """Seconds of one step, on average over several with one wait at their end."""
    start = time.perf_counter()
    for _ in range(repeats):
        step()
    wait()
    return (time.perf_counter() - start) / repeats


def rounds_of(cases: dict[str, Case], rounds: int) -> dict[str, list[float]]:
    """Each case's seconds in each round; all take part in each, so load hits them alike."""
    times: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(rounds):
        for name, case in cases.items():
            times[name].append(case())
    return times


def medians(times: dict[str, list[float]], scale: float = 1.0) -> dict[str, float]:
    return {name: scale * statistics.median(each) for name, each in times.items()}


def ratio(times: dict[str, list[float]], above: str, below: str) -> float:
    """The median over the rounds of one case's seconds by another's in the same round."""
    pairs = zip(times[above], times[below], strict=True)
    return statistics.median(one / other for one, other in pairs)


def interleaved(cases: dict[str, Case], rounds: int) -> dict[str, float]:
    return medians(rounds_of(cases, rounds))


@contextlib.contextmanager
def fresh_cache() -> Iterator[None]:
    """An empty compile cache for this process and its children: no figure depends on a run before.

    A process keeps the cache that it first compiled with.
    """
    with tempfile.TemporaryDirectory() as folder:
        settings = {"TORCH_TPU_CACHE": "rw", "TORCH_TPU_CACHE_DIR": folder}
        with mock.patch.dict(os.environ, settings):
            os.environ.pop("TORCH_TPU_SHARED_CACHE_DIR", None)
            os.environ.pop("XLA_PERSISTENT_CACHE_PATH", None)
            yield


def no_wait() -> None:
    """The CPU has nothing to wait for."""


WAIT: dict[str, Callable[[], object]] = {"cpu": no_wait, "tpu": lambda: torch.tpu.synchronize()}


def _machine_seconds() -> float:
    """Processor seconds that the whole machine has spent on work so far."""
    with open("/proc/stat") as lines:
        user, nice, system, _, _, interrupts, soft, stolen = map(int, next(lines).split()[1:9])
    ticks = user + nice + system + interrupts + soft + stolen
    return ticks / os.sysconf("SC_CLK_TCK")


def _own_seconds() -> float:
    """Those of this process and of the children that it has waited for."""
    return sum(os.times()[:4])


_START = time.perf_counter(), _machine_seconds() - _own_seconds()


def cores_busy_elsewhere() -> float:
    """How many cores other processes kept busy since this one started: what spoils figures."""
    start, others = _START
    return (_machine_seconds() - _own_seconds() - others) / (time.perf_counter() - start)


def _processor() -> str:
    with open("/proc/cpuinfo") as lines:
        names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _versions() -> dict[str, str]:
    installed = {each.metadata["Name"]: each.version for each in importlib.metadata.distributions()}
    return {name: installed[name] for name in PACKAGES if name in installed}


def machine() -> dict[str, Any]:
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "cores_busy_elsewhere": cores_busy_elsewhere(),
        "cpu_threads": torch.get_num_threads(),
        "device": torch.tpu.get_device_name(),
        "python": platform.python_version(),
        "versions": _versions(),
    }


def report(
    name: str,
    figures: dict[str, Any],
    rows: Iterable[tuple[Any, ...]],
    unit: str,
    folder: Path = RESULTS,
) -> None:
    """Writes ``folder``/<name>.json and prints the rows."""
    folder.mkdir(exist_ok=True)
    written: dict[str, Any] = {"machine": machine(), "unit": unit, "figures": figures}
    (folder / f"{name}.json").write_text(json.dumps(written, indent=2) + "\n")
    busy = written["machine"]["cores_busy_elsewhere"]
    print(f"\n{name} [{unit}; {busy:.1f} of {os.cpu_count()} cores busy elsewhere]")
    for row in rows:
        label, *values = row
        print(f"  {label:<44}" + "".join(f"{_text(value):>14}" for value in values))


def _text(value: Any) -> str:
    return f"{value:,.4g}" if isinstance(value, float) else str(value)
