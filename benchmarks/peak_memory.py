"""The most that a steady train step holds on the device, in a process that does nothing else.

python benchmarks/peak_memory.py gpt fused
"""

from __future__ import annotations

import subprocess
import sys


def of_a_process(name: str, mode: str) -> tuple[int, int]:
    """Bytes: with the temporary memory of programs, where the plugin tells it, and of tensors."""
    command = [sys.executable, __file__, name, mode]
    printed = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout
    everything, tensors = map(int, printed.split())
    return everything, tensors


def peak_bytes(name: str, mode: str) -> tuple[int, int]:
    import models
    import pairs
    import torch

    from torch_tpu import _C

    pairs.wait_for_programs()
    with torch.tpu.set_eager_mode(mode):
        step, _ = models.train_step(name, "tpu")
        pairs.warm_up(step, mode)
        torch.tpu.reset_peak_memory_stats()
        for _ in range(2):
            step()
        torch.tpu.synchronize()
        stats = _C.memory_stats(0)
        return stats["peak_bytes"], stats["peak_tensor_bytes"]


if __name__ == "__main__":
    print(*peak_bytes(*sys.argv[1:]))
