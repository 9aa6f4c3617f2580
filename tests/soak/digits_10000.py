"""Ten thousand training steps must hold memory flat: device bytes exactly, RSS within 5 %.

python tests/soak/digits_10000.py [steps]
"""

import itertools
import sys
import time
from pathlib import Path

import torch

sys.path.append(str(Path(__file__).parents[1] / "models"))

from digits import DigitsNet, train

from torch_tpu.diagnostics import counters

ALLOWED_GROWTH = 0.05
REPORTS = 10


def resident_bytes():
    """What this process holds in memory now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


def measure(step, started):
    torch.tpu.synchronize()
    device, resident = counters()["bytes_in_use"], resident_bytes()
    rate = step / (time.monotonic() - started)
    print(f"step {step:6d}  device {device / 1e6:7.3f} MB  RSS {resident / 1e6:7.1f} MB"
          f"  {rate:5.0f} steps/s", flush=True)  # fmt: skip
    return device, resident


def main(steps):
    started, losses = time.monotonic(), train(DigitsNet(), "tpu")
    points = []
    for number, loss in zip(itertools.count(1), losses):
        if number % (steps // REPORTS) == 0:
            assert loss.isfinite().item()
            points.append(measure(number, started))
        if number == steps:
            break
    (device, resident), (last_device, last_resident) = points[0], points[-1]
    assert last_device == device, f"device memory went from {device} to {last_device} bytes"
    growth = last_resident / resident - 1
    assert growth <= ALLOWED_GROWTH, f"RSS grew by {growth:.1%}"
    print(f"flat: RSS {growth:+.2%} from step {steps // REPORTS} to {steps}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
