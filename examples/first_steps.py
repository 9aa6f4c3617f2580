"""Trains a small model on the "tpu" device and on the CPU, from the same weights, and compares."""

import copy
import time

import torch
from torch import nn
from torch.nn import functional

STEPS = 50


def train(model: nn.Module, device: str, x: torch.Tensor, y: torch.Tensor) -> list[float]:
    model = copy.deepcopy(model).to(device)
    x, y = x.to(device), y.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(STEPS):
        loss = functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())  # reading a number here would wait for the device
    return torch.stack(losses).tolist()


def main() -> None:
    torch.manual_seed(0)
    print(f"{torch.tpu.device_count()} device(s): {torch.tpu.get_device_name()}")
    x = torch.randn(512, 32)
    y = (x[:, :4].sum(1) > 0).long() + 2 * (x[:, 4] > 0).long()
    model = nn.Sequential(nn.Linear(32, 64), nn.LayerNorm(64), nn.GELU(), nn.Linear(64, 4))
    losses = {}
    for device in ("cpu", "tpu"):
        start = time.perf_counter()
        losses[device] = train(model, device, x, y)
        seconds = time.perf_counter() - start
        first, last = losses[device][0], losses[device][-1]
        print(f"{device}: loss {first:.4f} -> {last:.4f} in {seconds:.1f} s, compiling included")
    torch.testing.assert_close(losses["tpu"], losses["cpu"], rtol=1e-3, atol=1e-4)
    print("the same losses on both")
    print(torch.tpu.memory_summary(abbreviated=True))


if __name__ == "__main__":
    main()
