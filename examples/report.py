"""What the examples share: their options, a progress bar with the loss, and a closing table."""

import argparse
import json
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import torch
from tqdm import tqdm

WARM_UP = 2  # steps that still compile: the first, and the one that first finds optimizer state
SHOW_EVERY = 10  # showing a loss waits for the device


def options(description: str, steps: int) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--device", choices=("tpu", "cpu"), default="tpu")
    parser.add_argument("--steps", type=int, default=steps)
    parser.add_argument("--mode", choices=("strict", "debug", "fused"), help="eager mode of tpu")
    parser.add_argument("--compile", action="store_true", help="torch.compile on tpu")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--losses", type=Path, help="writes each step's loss to this JSON file")
    return parser


def compiled(function: Callable, arguments: argparse.Namespace) -> Callable:
    """The function through torch.compile if asked to, on tpu; the CPU stays as the reference."""
    return torch.compile(function) if arguments.compile and arguments.device == "tpu" else function


class Run:
    """One training run: counts and times its steps, keeps their losses."""

    def __init__(self, name: str, arguments: argparse.Namespace) -> None:
        self.name = name
        self.arguments = arguments
        self.on_tpu = arguments.device == "tpu"
        if self.on_tpu and arguments.mode:
            torch.tpu.set_eager_mode(arguments.mode)
        self.losses: list[torch.Tensor] = []
        self.stamps = [time.perf_counter()]

    def device_name(self) -> str:
        return torch.tpu.get_device_name() if self.on_tpu else "PyTorch"

    def steps(self, batches: Iterable) -> Iterator:
        """Yields a batch per step; the body of the loop calls :meth:`log`."""
        label = f"{self.name} on {self.arguments.device}, {self.device_name()}"
        with tqdm(total=self.arguments.steps, desc=label, unit="step") as self.bar:
            for _, batch in zip(range(self.arguments.steps), batches, strict=False):
                yield batch
            self.synchronize()
        self.stamps[-1] = time.perf_counter()

    def log(self, loss: torch.Tensor) -> None:
        self.losses.append(loss.detach())
        if len(self.losses) % SHOW_EVERY in (0, 1):
            self.bar.set_postfix(loss=f"{loss.item():.4f}", refresh=False)
        self.stamps.append(time.perf_counter())
        self.bar.update()

    def synchronize(self) -> None:
        if self.on_tpu:
            torch.tpu.synchronize()

    def close(self, **results: str) -> None:
        """Prints the table, and writes the losses if asked to."""
        losses = [loss.item() for loss in self.losses]
        if self.arguments.losses:
            self.arguments.losses.write_text(json.dumps(losses))
        rows = {"device": f"{self.arguments.device} ({self.device_name()})"}
        rows |= {"loss": f"{losses[0]:.4f} -> {losses[-1]:.4f}"} | results | self.timings()
        if self.on_tpu:
            rows |= counts()
        width = max(map(len, rows))
        print(*(f"{name:<{width}}  {value}" for name, value in rows.items()), sep="\n")

    def timings(self) -> dict[str, str]:
        warm = min(WARM_UP, len(self.losses) - 1)
        each = (self.stamps[-1] - self.stamps[warm]) / (len(self.losses) - warm)
        return {
            f"first {warm} steps": f"{self.stamps[warm] - self.stamps[0]:.1f} s",
            "step time after": f"{each * 1e3:.1f} ms",
            "steps/s": f"{1 / each:.1f}",
        }


def counts() -> dict[str, str]:
    """What the device did, and which ops had to run on the CPU."""
    from torch_tpu import diagnostics

    counters = diagnostics.counters()
    names = {
        "ops": "ops recorded",
        "compiles": "programs compiled",
        "memory_hits": "cache hits",
        "fallbacks": "fallbacks",
    }
    rows = {label: f"{counters[name]:,}" for name, label in names.items()}
    if fallbacks := diagnostics.fallbacks():
        rows["fallbacks"] += f" ({', '.join(fallbacks)})"
    return rows
