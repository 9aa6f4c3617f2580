"""What a call costs: small ops in strict mode beside jax.jit and CPU PyTorch, and its parts."""

from __future__ import annotations

import time
from collections.abc import Callable

import measure
import torch
from jax_peer import JaxPeer

from torch_tpu import _C

ROUNDS, OPS = 7, 2000
ADDITION = "x = x + y"

Op = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]

# From the least that a call can do to more than an addition: the differences are the parts.
PARTS: dict[str, Op] = {
    "x.detach(): binding, dispatcher, a tensor": lambda x, y: x.detach(),
    "x.t(): a view, no program": lambda x, y: x.t(),
    "torch.empty_like(x): a storage": lambda x, y: torch.empty_like(x),
    "x + y": lambda x, y: x + y,
    "x.t() + y: a view read": lambda x, y: x.t() + y,
    "x * 2: a number": lambda x, y: x * 2,
    "x.add_(y): a write, donated": lambda x, y: x.add_(y),
    "x @ y": lambda x, y: x @ y,
    "x.sum()": lambda x, y: x.sum(),
}


def operands(device: str) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.ones(16, 16, device=device), torch.full((16, 16), 1e-3, device=device)


def repeated(op: Op, device: str) -> measure.Case:
    x, y = operands(device)
    for _ in range(10):
        op(x, y)
    return lambda: measure.seconds(lambda: op(x, y), measure.WAIT[device], OPS)


def chained(device: str) -> measure.Case:
    """Each addition takes the last one's result."""

    def case() -> float:
        x, y = operands(device)
        x = x + y
        start = time.perf_counter()
        for _ in range(OPS):
            x = x + y
        measure.WAIT[device]()
        return (time.perf_counter() - start) / OPS

    case()
    return case


def stages() -> dict[str, float]:
    """Microseconds that the host spends in each stage of an addition, of those in C++."""
    case = chained("tpu")
    _C.set_stage_timing(True)
    whole = case()
    _C.set_stage_timing(False)
    # The case warms up with one more addition.
    named = {name: each / 1e3 / (OPS + 1) for name, each in _C.stage_times().items()}
    return named | {"binding, dispatcher, loop, clock": 1e6 * whole - sum(named.values())}


def main() -> None:
    with JaxPeer("addition") as jax, torch.no_grad():
        cases = {
            "strict": chained("tpu"),
            "jax.jit": lambda: jax.seconds(OPS),
            "cpu": chained("cpu"),
        }
        chain = {name: 1e6 * each for name, each in measure.interleaved(cases, ROUNDS).items()}
    parts = {
        (name, device): repeated(op, device)
        for name, op in PARTS.items()
        for device in ("tpu", "cpu")
    }
    with torch.no_grad():
        times = {key: 1e6 * each for key, each in measure.interleaved(parts, ROUNDS).items()}
    inside = stages()
    breakdown = {name: {device: times[name, device] for device in ("tpu", "cpu")} for name in PARTS}
    rows = [("", "strict", "jax.jit", "cpu"), (ADDITION, *chain.values())]
    rows += [("  of it: " + name, each) for name, each in inside.items()]
    rows += [(name, each["tpu"], "", each["cpu"]) for name, each in breakdown.items()]
    measure.report(
        "dispatch", {ADDITION: chain, "stages": inside, "parts": breakdown}, rows, "us per op"
    )


if __name__ == "__main__":
    main()
