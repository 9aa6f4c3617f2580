"""Fused mode against its bounds: speed, recording, memory, numbers, and plain JAX beside it.

python benchmarks/fused.py [speed|recording|memory|losses|jax ...] [--workloads NAME ...]
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Iterator

import bounds
import inference
import measure
import pairs
import peak_memory
import recording
import torch
import workloads
from bounds import Figure
from jax_peer import JaxPeer

MODES = ("strict", "fused")
# Times strict mode's speed. No model may lose by it: what is not named here has the last bound.
SPEEDUPS = {"chain": 2.0, "gpt": 1.5}
LEAST_SPEEDUP = 0.95
CHAIN_OPS, MOST_CHAIN_MICROSECONDS = 40, 34
# Five times torch_xla's lazy mode, which makes 153 on the two cores that the bounds are for.
LEAST_TOKENS_PER_SECOND = 5 * 153
MOST_RECORDING_MICROSECONDS = 4
# Times strict mode's peak.
MEMORY_BOUNDS = {"gpt": 0.8}
MOST_LOSS_DIFFERENCE = 1e-4
# Times plain JAX's time under jit.
JAX_BOUNDS = {"gpt": 1.25, "resnet": 1.15}

Figures = Iterator[Figure]


def trainings(chosen: argparse.Namespace) -> list[str]:
    """Those of the chosen workloads whose memory and losses are looked at as well."""
    return [name for name in ("gpt", "mlp") if name in chosen.workloads]


def speed(chosen: argparse.Namespace) -> Figures:
    """Strict and fused in turn, on every workload."""
    for name in chosen.workloads:
        cases = pairs.modes(workloads.WORKLOADS[name], *MODES)
        times = pairs.rounds_for(cases, chosen.seconds, chosen.pairs)
        least = SPEEDUPS.get(name, LEAST_SPEEDUP)
        yield Figure(f"{name}: strict / fused", measure.ratio(times, *MODES), "x", least=least)
        yield from (
            Figure(f"{name}: {mode}", 1e3 * statistics.median(times[mode]), "ms") for mode in MODES
        )
        yield from _by_unit(name, statistics.median(times["fused"]))


def _by_unit(name: str, seconds: float) -> Figures:
    """What has a bound of its own beside the one against strict mode."""
    if name == "chain":
        each, most = 1e6 * seconds / CHAIN_OPS, MOST_CHAIN_MICROSECONDS
        yield Figure("chain: fused, each op", each, "us", most=most)
    if name == "decode":
        rate, least = inference.TOKENS / seconds, LEAST_TOKENS_PER_SECOND
        yield Figure("decode: fused, tokens read at the end", rate, "tokens/s", least=least)


def host(chosen: argparse.Namespace) -> Figures:
    """What the host spends on an op that is recorded."""
    seconds = recording.per_addition(chosen.seconds, chosen.pairs)
    most = MOST_RECORDING_MICROSECONDS
    yield Figure("recording x + y", 1e6 * seconds, "us", most=most)
    for name in trainings(chosen):
        seconds = recording.per_forward_op(name, chosen.seconds, chosen.pairs)
        yield Figure(f"recording {name}'s forward, its Python too", 1e6 * seconds, "us/op")


def memory(chosen: argparse.Namespace) -> Figures:
    for name in trainings(chosen):
        strict, fused = (peak_memory.of_a_process(name, mode) for mode in MODES)
        most = MEMORY_BOUNDS.get(name)
        for what, place in (("all", 0), ("tensors alone", 1)):
            one, other = strict[place], fused[place]
            label = f"peak memory of {name}, {what}"
            yield Figure(f"{label}: fused / strict", other / one, "x", most=most)
            yield Figure(f"{label}: strict", one / 1e6, "MB")
            yield Figure(f"{label}: fused", other / 1e6, "MB")


def losses(chosen: argparse.Namespace) -> Figures:
    """The same training in all three modes."""
    for name in trainings(chosen):
        strict, *others = (_losses(name, mode, chosen.steps) for mode in (*MODES, "debug"))
        for mode, other in zip(("fused", "debug"), others, strict=True):
            worst, most = (other / strict - 1).abs().max().item(), MOST_LOSS_DIFFERENCE
            label = f"{chosen.steps} losses of {name}: {mode} from strict"
            yield Figure(label, worst, "relative", most=most)


def _losses(name: str, mode: str, steps: int) -> torch.Tensor:
    with torch.tpu.set_eager_mode(mode):
        step = workloads.benchmark(name)
        return torch.stack([step() for _ in range(steps)]).cpu().double()


def jax(chosen: argparse.Namespace) -> Figures:
    """The same models in plain JAX, in turn with fused mode."""
    for name in filter(chosen.workloads.__contains__, JAX_BOUNDS):
        cases = pairs.modes(workloads.WORKLOADS[name], "fused")
        with JaxPeer(name) as peer:
            cases["jax.jit"] = lambda peer=peer: peer.seconds(1) and peer.seconds(1)
            times = pairs.rounds_for(cases, chosen.seconds, chosen.pairs)
        ratio = measure.ratio(times, "fused", "jax.jit")
        yield Figure(f"{name}: fused / jax.jit", ratio, "x", most=JAX_BOUNDS[name])
        yield Figure(f"{name}: jax.jit", 1e3 * statistics.median(times["jax.jit"]), "ms")


SECTIONS: dict[str, Callable[[argparse.Namespace], Figures]] = {
    "speed": speed,
    "recording": host,
    "memory": memory,
    "losses": losses,
    "jax": jax,
}


def _options() -> argparse.Namespace:
    parser = bounds.options(__doc__)
    parser.add_argument("--steps", type=int, default=50, help="losses that are compared")
    return bounds.parsed(parser, SECTIONS, workloads.WORKLOADS)


def main() -> None:
    chosen = _options()
    with measure.fresh_cache():
        pairs.wait_for_programs()
        for section in chosen.sections or SECTIONS:
            figures = list(SECTIONS[section](chosen))
            bounds.report(f"fused_{section}", figures, chosen.results)


if __name__ == "__main__":
    main()
