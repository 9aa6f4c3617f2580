"""Memory in use, under the names of torch.cuda's functions.

PJRT owns the memory pools, so what is reserved is what is allocated.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import torch

from torch_tpu import _C
from torch_tpu.accelerator.devices import DeviceLike, is_initialized, ordinal
from torch_tpu.accelerator.properties import get_device_properties

OutOfMemoryError = torch.OutOfMemoryError

_BYTES = ("allocated_bytes", "active_bytes", "requested_bytes", "reserved_bytes")
_BLOCKS = ("allocation", "active")


def memory_stats(device: DeviceLike = None) -> dict[str, Any]:
    """Counts and bytes by dotted name, such as ``allocated_bytes.all.current``.

    Empty before the device is first used.
    """
    stats: dict[str, Any] = OrderedDict()
    if is_initialized():
        _flatten("", memory_stats_as_nested_dict(device), stats)
    return stats


def memory_stats_as_nested_dict(device: DeviceLike = None) -> dict[str, Any]:
    """What memory_stats flattens: ``{"allocated_bytes": {"all": {"current": ...}}}``."""
    if not is_initialized():
        return {}
    raw = _C.memory_stats(ordinal(device))
    in_bytes = {
        "current": raw["bytes_in_use"],
        "peak": raw["peak_bytes"],
        "allocated": raw["allocated_bytes_total"],
        "freed": raw["freed_bytes_total"],
    }
    in_blocks = {
        "current": raw["allocations"] - raw["frees"],
        "allocated": raw["allocations"],
        "freed": raw["frees"],
    }
    return {
        "num_alloc_retries": raw["num_alloc_retries"],
        "num_ooms": raw["num_ooms"],
        **{name: {"all": dict(in_bytes)} for name in _BYTES},
        **{name: {"all": dict(in_blocks)} for name in _BLOCKS},
    }


def _flatten(prefix: str, value: Any, into: dict[str, Any]) -> None:
    if not isinstance(value, dict):
        into[prefix] = value
        return
    for key in sorted(value):
        _flatten(f"{prefix}.{key}" if prefix else key, value[key], into)


def memory_allocated(device: DeviceLike = None) -> int:
    """Bytes that live tensors hold now."""
    return memory_stats(device).get("allocated_bytes.all.current", 0)


def max_memory_allocated(device: DeviceLike = None) -> int:
    """The most bytes held at once since the start or reset_peak_memory_stats."""
    return memory_stats(device).get("allocated_bytes.all.peak", 0)


def memory_reserved(device: DeviceLike = None) -> int:
    return memory_stats(device).get("reserved_bytes.all.current", 0)


def max_memory_reserved(device: DeviceLike = None) -> int:
    return memory_stats(device).get("reserved_bytes.all.peak", 0)


def reset_peak_memory_stats(device: DeviceLike = None) -> None:
    if is_initialized():
        _C.reset_peak_memory_stats(ordinal(device))


def reset_accumulated_memory_stats(device: DeviceLike = None) -> None:
    """Starts the totals of allocated and freed bytes, and the failures, again from zero."""
    if is_initialized():
        _C.reset_accumulated_memory_stats(ordinal(device))


# Older names that torch.cuda keeps for scripts that still use them.
memory_cached = memory_reserved
max_memory_cached = max_memory_reserved
reset_max_memory_allocated = reset_peak_memory_stats
reset_max_memory_cached = reset_peak_memory_stats


def mem_get_info(device: DeviceLike = None) -> tuple[int, int]:
    """(free, total) bytes of a device."""
    total = get_device_properties(device).total_memory
    return max(0, total - memory_allocated(device)), total


def empty_cache() -> None:
    if is_initialized():
        _C.empty_cache()


def memory_summary(device: DeviceLike = None, abbreviated: bool = False) -> str:
    """memory_stats as a table. ``abbreviated`` leaves out the counts of allocations."""
    stats = memory_stats(device)
    number = ordinal(device)
    columns = ("current", "peak", "allocated", "freed")
    rows: list[tuple[str, str, Callable[[int], str]]] = [
        ("Allocated memory", "allocated_bytes", _format_bytes)
    ]
    if not abbreviated:
        rows += [("Allocations", "allocation", str)]
    table = [["Metric", "Cur Usage", "Peak Usage", "Tot Alloc", "Tot Freed"]]
    for title, key, format_value in rows:
        values = (stats.get(f"{key}.all.{column}") for column in columns)
        table.append([title, *("" if value is None else format_value(value) for value in values)])
    failures = f"out of memory: {stats.get('num_ooms', 0)}"
    return "\n".join(
        [f"PyTorch TPU memory summary, device {number}, {failures}"]
        + [f"{row[0]:<18}" + "".join(f"{cell:>13}" for cell in row[1:]) for row in table]
    )


def _format_bytes(count: float) -> str:
    units = ["B", "KiB", "MiB", "GiB", "TiB"]
    while abs(count) >= 1024 and len(units) > 1:
        count /= 1024
        units.pop(0)
    return f"{count:.0f} B" if units[0] == "B" else f"{count:.1f} {units[0]}"
