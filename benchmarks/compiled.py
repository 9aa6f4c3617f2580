"""torch.compile against its bounds: speed beside plain JAX, a call's overhead, first calls.

python benchmarks/compiled.py [speed|overhead|starts ...] [--workloads NAME ...]
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

import bounds
import inference
import measure
import models
import pairs
import torch
from bounds import Figure
from jax_peer import JaxPeer

# Times plain JAX's time under jit.
JAX_BOUNDS = {"gpt": 1.05, "resnet": 1.05, "mlp": 1.05}
CHAIN_OPS, MOST_CHAIN_MICROSECONDS = 40, 30
LEAST_DECODING = 0.9  # times plain JAX's tokens per second
PARAMETERS, MOST_CALL_MICROSECONDS = 100, 60
MOST_OF_JAXS_FIRST, MOST_OF_COLD = 1.25, 0.15

Figures = Iterator[Figure]
Step = Callable[[], torch.Tensor]


def compiled(function: Callable[..., Any], backend: str = "tpu") -> Callable[..., Any]:
    return torch.compile(function, backend=backend)


def training(name: str, device: str = "tpu", backend: str = "tpu") -> Step:
    wrap = functools.partial(compiled, backend=backend)
    return models.train_step(name, device, wrap=wrap)[0]


WORKLOADS: dict[str, Callable[[], Step]] = {
    **{name: lambda name=name: training(name) for name in JAX_BOUNDS},
    "chain": lambda: torch.no_grad()(inference.chain("tpu", compiled)),
    "decode": lambda: torch.no_grad()(inference.decode("tpu", compiled)),
}


def speed(chosen: argparse.Namespace) -> Figures:
    """Compiled steps and plain JAX's in turn."""
    for name in chosen.workloads:
        cases = pairs.modes(WORKLOADS[name], "strict")
        with JaxPeer(name) as peer:
            repeats = max(1, int(pairs.BLOCK_SECONDS / cases["strict"]()))
            cases["jax.jit"] = lambda peer=peer, repeats=repeats: (
                peer.seconds(1) and peer.seconds(repeats)
            )
            times = pairs.rounds_for(cases, chosen.seconds, chosen.pairs)
        yield from _judged(name, measure.ratio(times, "strict", "jax.jit"), times)


def _judged(name: str, ratio: float, times: dict[str, list[float]]) -> Figures:
    ours, jax = (statistics.median(times[each]) for each in ("strict", "jax.jit"))
    if name == "decode":
        yield Figure("decode: tokens/s, of jax.jit's", 1 / ratio, "x", least=LEAST_DECODING)
        yield Figure("decode: compiled", inference.TOKENS / ours, "tokens/s")
        return
    yield Figure(f"{name}: compiled / jax.jit", ratio, "x", most=JAX_BOUNDS.get(name))
    if name == "chain":
        each = 1e6 * ours / CHAIN_OPS
        yield Figure("chain: compiled, each op", each, "us", most=MOST_CHAIN_MICROSECONDS)
    yield Figure(f"{name}: compiled", 1e3 * ours, "ms")
    yield Figure(f"{name}: jax.jit", 1e3 * jax, "ms")


def overhead(chosen: argparse.Namespace) -> Figures:
    """A call of a function that adds up many small parameters, its program's run included."""

    def total(x: torch.Tensor, parameters: list[torch.Tensor]) -> torch.Tensor:
        for each in parameters:
            x = x + each
        return x

    parameters = [torch.randn(4).to("tpu") for _ in range(PARAMETERS)]
    function, x = compiled(total), torch.randn(4).to("tpu")
    step = torch.no_grad()(lambda: function(x, parameters))
    pairs.warm_up(step, "strict")
    # For as long as speed() measures a pair: the minimum of a second tells of the neighbours.
    case = {"calls": lambda: measure.seconds(step, torch.tpu.synchronize, 2000)}
    times = pairs.rounds_for(case, chosen.seconds, max(chosen.pairs, 9))["calls"]
    label = f"a call with {PARAMETERS} parameters"
    yield Figure(label, 1e6 * min(times), "us", most=MOST_CALL_MICROSECONDS)


def starts(chosen: argparse.Namespace) -> Figures:
    """First steps: of a process whose caches are empty, of the next one, and of plain JAX.

    And what PyTorch's capture takes by itself, on the CPU and before a backend is asked: Dynamo's
    part, which a second process repeats, and AOTAutograd's with it.
    """
    for name in filter(chosen.workloads.__contains__, JAX_BOUNDS):
        found = [_first_steps(name) for _ in range(chosen.processes)]
        medians = (statistics.median(each) for each in zip(*found, strict=True))
        cold, warm, jax, dynamo, aot = medians
        yield Figure(f"{name}: first step / jax.jit's", cold / jax, "x", most=MOST_OF_JAXS_FIRST)
        yield Figure(f"{name}: second process / first", warm / cold, "x", most=MOST_OF_COLD)
        for label, seconds in (("first", cold), ("second", warm), ("jax.jit's", jax)):
            yield Figure(f"{name}: first step, {label} process", seconds, "s")
        yield Figure(f"{name}: first step, Dynamo on the CPU", dynamo, "s")
        yield Figure(f"{name}: first step, AOTAutograd on the CPU", aot, "s")


def _first_steps(name: str) -> tuple[float, ...]:
    """Seconds of a first process, a second one with its caches, JAX's, and PyTorch's captures."""
    captures = [_first_step(name, "cpu", backend) for backend in ("eager", "aot_eager")]
    with tempfile.TemporaryDirectory() as folder, measure.fresh_cache():
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = folder
        try:
            ours = [_first_step(name) for _ in range(2)]
        finally:
            del os.environ["TORCHINDUCTOR_CACHE_DIR"]
    with JaxPeer(name) as peer:
        return *ours, peer.first, *captures


def _first_step(name: str, device: str = "tpu", backend: str = "tpu") -> float:
    command = [sys.executable, __file__, "--child", name, device, backend]
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)


def child(name: str, device: str, backend: str) -> None:
    """Prints the seconds of a process's first compiled step, its model's making included."""
    start = time.perf_counter()
    training(name, device, backend)().item()
    print(json.dumps(time.perf_counter() - start))


SECTIONS = {"speed": speed, "overhead": overhead, "starts": starts}


def _options() -> argparse.Namespace:
    parser = bounds.options(__doc__)
    parser.add_argument("--processes", type=int, default=3, help="how often first steps are run")
    return bounds.parsed(parser, SECTIONS, WORKLOADS)


def main() -> None:
    if sys.argv[1:2] == ["--child"]:
        child(*sys.argv[2:])
        return
    chosen = _options()
    with measure.fresh_cache():
        for section in chosen.sections or SECTIONS:
            bounds.report(f"compiled_{section}", list(SECTIONS[section](chosen)), chosen.results)


if __name__ == "__main__":
    main()
