"""What loops cost: programs that were made, executions, and memory."""

import torch

from torch_tpu.diagnostics import counters

DEVICE = "tpu"
MIB = 1 << 20


def programs():
    """Programs that were made so far, whether compiled or read from the cache on disk.

    Does not synchronise, which would cut a loop where it is not cut otherwise.
    """
    counts = counters()
    return counts["compiles"] + counts["disk_hits"]


def growth(iteration, warm, more):
    """Programs that ``more`` iterations make after ``warm`` of them."""
    for number in range(warm):
        iteration(number)
    before = programs()
    for number in range(warm, warm + more):
        iteration(number)
    return programs() - before


def bytes_in_use():
    torch.tpu.synchronize()
    return counters()["bytes_in_use"]


def peak(work):
    """The most bytes that ``work()`` held beyond what was held before it."""
    before = bytes_in_use()
    torch.tpu.reset_peak_memory_stats()
    work()
    torch.tpu.synchronize()
    return torch.tpu.max_memory_allocated() - before
