"""The C++ extension: what Python may call. Ordinals are ints; -1 stands for the current device."""

from collections.abc import Callable, Sequence
from typing import Any

import torch

# -- runtime -----------------------------------------------------------------------------------
def register() -> None:
    """Register kernels, hooks, guard and allocator; once, from torch_tpu/__init__.py."""

def set_runtime(resolve: Callable[[], tuple[str, dict[str, bool | int | str]]]) -> None:
    """`resolve` names the plugin's path and create options; called on first use of the device."""

def finish_backward() -> None:
    """Wait, a second at most, until autograd's threads hold nothing of Python's any more."""

def lazy_init() -> None:
    """Load the plugin and create the client; RuntimeError where that can't be done (bad fork)."""

def is_initialized() -> bool: ...
def is_in_bad_fork() -> bool: ...
def device_count() -> int: ...
def current_device() -> int: ...
def set_device(ordinal: int) -> None: ...
def exchange_device(ordinal: int) -> int: ...
def platform_name() -> str: ...
def platform_version() -> str: ...
def api_version() -> tuple[int, int]: ...
def plugin_path() -> str: ...
def device_kind(ordinal: int) -> str: ...
def device_attributes(ordinal: int) -> dict[str, str]: ...
def register_ffi_handler(target: str, handler: Any, platform: str) -> bool:
    """`handler` is a capsule of an XLA FFI handler; False where the plugin takes none."""

def synchronize(ordinal: int) -> None:
    """Run what is recorded, wait for it, and raise what went wrong on the device."""

# -- memory ------------------------------------------------------------------------------------
def memory_stats(ordinal: int) -> dict[str, int]:
    """bytes_in_use, peak_bytes (with what programs need while they run), peak_tensor_bytes,
    allocated_bytes_total, freed_bytes_total, allocations, frees, num_alloc_retries, num_ooms,
    bytes_limit (-1: unknown)."""

def reset_peak_memory_stats(ordinal: int) -> None: ...
def reset_accumulated_memory_stats(ordinal: int) -> None: ...
def empty_cache() -> None: ...

# -- random ------------------------------------------------------------------------------------
def default_generator(ordinal: int) -> torch.Generator: ...

# -- modes and fusion --------------------------------------------------------------------------
def matmul_precision() -> int:
    """0 highest, 1 high, 2 medium: of float32 products, by whichever of PyTorch's settings."""

def eager_mode() -> int:
    """0 strict, 1 fused, 2 debug; of the process."""

def set_eager_mode(mode: int) -> None:
    """Leaving fused mode runs what is recorded."""

def flush(ordinal: int) -> None:
    """Run what is recorded, as the end of an optimizer's step; does not wait."""

def set_collecting(collecting: bool) -> None:
    """Whether the garbage collector runs: what it frees counts as live until the next flush."""

def set_async_compile(enabled: bool) -> None:
    """Whether new programs compile on another thread while their ops run one by one."""

def set_max_programs(count: int) -> None:
    """How many programs stay in memory; the one that ran longest ago goes first."""

# -- diagnostics -------------------------------------------------------------------------------
def set_library_folders(folders: list[str]) -> None:
    """Folders, each with a separator at its end, whose Python lines are not the user's."""

def set_explaining(enabled: bool) -> None:
    """Whether flushes are recorded for take_flush_reports()."""

def take_flush_reports() -> list[tuple[Any, ...]]:
    """The flushes since the last call; torch_tpu/diagnostics/flushes.py names their fields."""

def set_stage_timing(enabled: bool) -> None:
    """Starts, from zero, or stops measuring what the host does for each op."""

def stage_times() -> dict[str, int]:
    """Nanoseconds of the host since then by stage: key, lookup, launch, deliver."""

def set_nan_checks(enabled: bool) -> None: ...
def set_op_printing(enabled: bool) -> None: ...
def counters() -> dict[str, int]: ...
def reset_counters() -> None: ...
def count(name: str, amount: int) -> None:
    """Add to a counter. KeyError for a name that counters() lacks."""

# -- programs ----------------------------------------------------------------------------------
class Executable:
    num_outputs: int
    def serialize(self) -> bytes: ...
    def optimized_program(self) -> bytes: ...

def compile(
    mlir: bytes, ordinal: int, flags: Sequence[tuple[str, bool | int | float | str]] = ()
) -> Executable:
    """``flags`` are XLA's, by their names without dashes, for this program alone."""

def deserialize(serialized: bytes) -> Executable: ...

class CompiledProgram:
    """A program that no device has loaded. ``run_bytes``: outputs and temporary memory."""

    num_outputs: int
    run_bytes: int
    def serialize(self) -> bytes: ...
    def optimized_program(self) -> bytes: ...

class Topology:
    """Devices that need not be there, by the plugin's own name for them."""

    device_count: int
    device_kind: str
    def __init__(self, plugin_path: str, name: str) -> None: ...
    def compile(
        self, mlir: bytes, flags: Sequence[tuple[str, bool | int | float | str]] = ()
    ) -> CompiledProgram: ...

class Graph:
    """A captured graph: a program for each way in which its arguments lie in memory.

    ``kinds`` says what each argument is: tensor, int, float, complex (numbers, or 0-dim CPU
    tensors) or unused. ``tensors`` has (written, reusable,
    padded) for each tensor. ``draws`` counts the
    random ops. ``make(bindings, donated)`` gives the program of a call whose like was not seen
    before (with the bounds that it was called with): an object with program, created, writes and
    checks.
    """

    def __init__(
        self,
        label: str,
        kinds: Sequence[str],
        tensors: Sequence[tuple[bool, bool, bool]],
        draws: int,
        ordinal: int,
        make: Callable[[list[tuple[Any, ...]], list[int], list[int]], Any],
    ) -> None: ...
    def run(self, arguments: list[Any]) -> list[torch.Tensor]:
        """The new tensors. ``arguments`` is emptied: what only it held, the program may reuse."""

    def run_open(
        self,
        arguments: list[Any],
        symbols: Sequence[int],
        bounds: Sequence[int],
        sizes: Sequence[int],
    ) -> list[torch.Tensor]:
        """As ``run``, of a graph with open sizes.

        ``symbols`` enter the program before the arguments' own integers; ``bounds`` tell programs
        apart; ``sizes`` are what -1, -2, ... stand for in the new tensors' sizes and strides.
        """

def value_dims(tensor: torch.Tensor) -> tuple[int, ...] | None:
    """The dims of the value under a tensor's storage; None where it was never written."""

def store_value(tensor: torch.Tensor, host: torch.Tensor) -> None:
    """Give a tensor's storage a CPU tensor's elements as its value, dims and all."""
