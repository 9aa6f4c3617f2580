"""What a call costs from Python: small ops on the "tpu" device beside the CPU's own."""

import argparse
import statistics
import time
from collections.abc import Callable

import torch

CASES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "x + x": lambda x: x + x,
    "x * 2": lambda x: x * 2,
    "x.add_(1)": lambda x: x.add_(1),
    "x @ x": lambda x: x @ x,
    "x.relu()": lambda x: x.relu(),
    "x.sum()": lambda x: x.sum(),
    "x[0]": lambda x: x[0],
    "x.t() + x": lambda x: x.t() + x,
}


def microseconds(call: Callable[[], object], repeats: int, device: str) -> float:
    """The median over seven rounds, each of them waiting for the device at its end only."""
    rounds = []
    for _ in range(7):
        start = time.perf_counter()
        for _ in range(repeats):
            call()
        if device == "tpu":
            torch.tpu.synchronize()
        rounds.append((time.perf_counter() - start) / repeats * 1e6)
    return statistics.median(rounds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=16)
    parser.add_argument("--repeats", type=int, default=500)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    size, device_name = arguments.size, torch.tpu.get_device_name()
    print(f"{size} x {size} float32, {device_name}, us per call")
    for name, case in CASES.items():
        times = []
        for device in ("cpu", "tpu"):
            x = torch.ones(size, size, device=device)
            case(x)  # compiles
            times.append(microseconds(lambda c=case, x=x: c(x), arguments.repeats, device))
        print(f"{name:<12} cpu {times[0]:8.2f}   tpu {times[1]:8.2f}")


if __name__ == "__main__":
    main()
