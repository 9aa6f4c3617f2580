"""A chain of pointwise ops, and greedy decoding with a static key-value cache."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import measure
import models
import torch
from jax_peer import JaxPeer

Wrap = Callable[[Callable[..., Any]], Callable[..., Any]]

ROUNDS, TOKENS, CHAINED = 7, 64, 30


def chain(device: str, wrap: Wrap = models.as_it_is) -> Callable[[], torch.Tensor]:
    torch.manual_seed(0)
    shapes = ((256, 256), (256, 256), (256,))
    operands = [torch.randn(shape).to(device) for shape in shapes]
    function = wrap(models.chain)
    return lambda: function(*operands)


def decode(device: str, wrap: Wrap = models.as_it_is) -> Callable[[], torch.Tensor]:
    """Tokens from an empty cache, read at the end."""
    size = models.GPT_SIZE
    torch.manual_seed(0)
    next_token = wrap(models.Gpt(size).to(device).next_token)
    cache_shape = (2, size.heads, size.length, size.width // size.heads)

    def step() -> torch.Tensor:
        token = torch.zeros(1, 1, dtype=torch.int64, device=device)
        place = torch.zeros(1, dtype=torch.int64, device=device)
        caches = [torch.zeros(cache_shape, device=device) for _ in range(size.layers)]
        tokens = []
        for _ in range(TOKENS):
            token = next_token(token, place, caches)
            place = place + 1
            tokens.append(token)
        return torch.cat(tokens, 1).cpu()

    return step


def compared(
    name: str, make: Callable[[str], Callable[[], torch.Tensor]], repeats: int
) -> dict[str, float]:
    steps = {device: make(device) for device in ("tpu", "cpu")}
    results = [step().cpu() for step in steps.values()]
    torch.testing.assert_close(*results)
    with JaxPeer(name) as jax:
        cases = {
            device: lambda step=step, wait=measure.WAIT[device]: measure.seconds(
                step, wait, repeats
            )
            for device, step in steps.items()
        }
        cases["jax.jit"] = lambda: jax.seconds(repeats)
        return measure.interleaved(cases, ROUNDS)


def main() -> None:
    header = ("", "strict", "cpu", "jax.jit")
    with torch.no_grad():
        chained = {k: 1e6 * each for k, each in compared("chain", chain, CHAINED).items()}
        measure.report("chain", chained, [header, ("chain", *chained.values())], "us per chain")
        rates = {k: TOKENS / each for k, each in compared("decode", decode, 1).items()}
        measure.report("decode", rates, [header, ("decode", *rates.values())], "tokens/s")


if __name__ == "__main__":
    main()
