"""What fused mode is measured on: a chain of ops, decoding, and train steps of every model.

The demo's models train on the demo's data; the architectures of the tests, on their one batch.
"""

from __future__ import annotations

import functools
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import inference
import models
import torch
import torch.nn.functional as F
from pairs import Step
from torch import nn

ROOT = Path(__file__).parents[1]


def _module(path: Path) -> ModuleType:
    """A script as a module; what lies beside it can be imported by it."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.path.append(str(path.parent))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(path.parent))
    return module


_demo = functools.cache(lambda name: _module(ROOT / "examples" / f"{name}.py"))
architectures = _module(ROOT / "tests" / "models" / "architectures.py")
ARCHITECTURES = architectures.ARCHITECTURES


def chain() -> Step:
    """The chain, its result kept until it is there: one that nobody wants is never computed."""
    run = inference.chain("tpu")

    def step() -> torch.Tensor:
        with torch.no_grad():
            result = run()
        torch.tpu.synchronize()
        return result

    return step


def decode() -> Step:
    return torch.no_grad()(inference.decode("tpu"))


def benchmark(name: str) -> Step:
    return models.train_step(name, "tpu")[0]


def digits() -> Step:
    demo = _demo("digits")
    torch.manual_seed(0)
    train, _ = demo.data(0)
    loader = torch.utils.data.DataLoader(train, batch_size=64, shuffle=True, drop_last=True)
    batches = demo.forever(loader)
    model = demo.network().to("tpu")
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)

    def step() -> torch.Tensor:
        images, labels = (each.to("tpu") for each in next(batches))
        loss = F.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def char_gpt() -> Step:
    demo = _demo("char_gpt")
    sizes = demo.parser().parse_args([])
    torch.manual_seed(0)
    text = demo.Text()
    batches = text.batches(sizes.batch, sizes.context)
    model = demo.GPT(len(text.alphabet), sizes.context, sizes.layers, sizes.width).to("tpu")
    optimizer = torch.optim.AdamW(model.parameters(), lr=sizes.lr)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=sizes.lr, total_steps=1_000_000, pct_start=0.1
    )

    def step() -> torch.Tensor:
        inputs, targets = (each.to("tpu") for each in next(batches))
        loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        return loss.detach()

    return step


def architecture(name: str) -> Step:
    build, make_batch = ARCHITECTURES[name]
    torch.manual_seed(0)
    model = build().to("tpu")
    batch: tuple[Any, ...] = make_batch(torch.Generator().manual_seed(1))
    batch = tuple(each.to("tpu") for each in batch)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def step() -> torch.Tensor:
        loss = architectures.loss_of(model(*batch))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


# By name: how to make a step of it. The small models are the tests' architectures.
WORKLOADS: dict[str, Callable[[], Step]] = {
    "chain": chain,
    "decode": decode,
    **{name: functools.partial(benchmark, name) for name in models.TRAININGS},
    "demo digits": digits,
    "demo char_gpt": char_gpt,
    **{f"small {name}": functools.partial(architecture, name) for name in ARCHITECTURES},
}
