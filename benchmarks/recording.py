"""The host's time for an op that fused mode records: up to the flush, which is not timed."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import models
import pairs
import torch

from torch_tpu import diagnostics

ADDITIONS = 1000  # a longer trace would be cut into chunks, that is flushed


def per_addition(seconds: float, least: int) -> float:
    """Median seconds that one x = x + y takes, 16 x 16, in a loop of them."""
    x, y = torch.ones(16, 16, device="tpu"), torch.full((16, 16), 1e-3, device="tpu")

    def record() -> torch.Tensor:
        z = x
        for _ in range(ADDITIONS):
            z = z + y
        return z

    with torch.no_grad():
        return _per_op(record, _wait_for, seconds, least)


def _wait_for(result: torch.Tensor) -> None:
    """The result lives meanwhile, so that its program is run."""
    torch.tpu.synchronize()


def per_forward_op(name: str, seconds: float, least: int) -> float:
    """The same of a train step's forward pass and loss, with the Python that makes the calls."""
    training = models.TRAININGS[name]
    torch.manual_seed(0)
    model = training.model().to("tpu")
    inputs, target = (each.to("tpu") for each in training.batch())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def finish(loss: torch.Tensor) -> None:
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return _per_op(lambda: training.loss(model(inputs), target), finish, seconds, least)


def _per_op(
    record: Callable[[], object], finish: Callable[..., object], seconds: float, least: int
) -> float:
    """Median seconds per op of ``record``, which must not flush; ``finish`` takes its result."""

    def round_() -> float:
        ops, flushes = _counted("ops", "flushes")
        start = time.perf_counter()
        result = record()
        taken = time.perf_counter() - start
        ops_after, flushes_after = _counted("ops", "flushes")
        assert flushes_after == flushes, "something was flushed while it was recorded"
        finish(result)
        torch.tpu.synchronize()
        return taken / (ops_after - ops)

    pairs.warm_up(round_, "fused")
    with torch.tpu.set_eager_mode("fused"):
        times = pairs.rounds_for({"fused": round_}, seconds, least)
    return statistics.median(times["fused"])


def _counted(*names: str) -> list[int]:
    counted = diagnostics.counters()
    return [counted[name] for name in names]
