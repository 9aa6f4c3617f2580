"""The most that a steady train step holds on the device, in a process that does nothing else.

python benchmarks/peak_memory.py gpt fused
"""

from __future__ import annotations

import subprocess
import sys


def of_a_process(name: str, mode: str) -> int:
    """Bytes, the temporary memory of programs included where the plugin tells it."""
    command = [sys.executable, __file__, name, mode]
    return int(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)


def peak_bytes(name: str, mode: str) -> int:
    import models
    import pairs
    import torch

    pairs.wait_for_programs()
    with torch.tpu.set_eager_mode(mode):
        step, _ = models.train_step(name, "tpu")
        pairs.warm_up(step, mode)
        torch.tpu.reset_peak_memory_stats()
        for _ in range(2):
            step()
        torch.tpu.synchronize()
        return torch.tpu.max_memory_allocated()


if __name__ == "__main__":
    print(peak_bytes(*sys.argv[1:]))
