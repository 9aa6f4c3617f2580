"""The module that users see as ``torch.tpu``."""

import sys
import types
from typing import Any

from torch_tpu import _C
from torch_tpu.accelerator import (
    amp,
    batching,
    compiler,
    devices,
    higher_order,
    memory,
    modes,
    modules,
    printing,
    properties,
    random,
    streams,
)
from torch_tpu.accelerator.devices import (
    current_device,
    device,
    device_count,
    device_of,
    init,
    is_available,
    is_initialized,
    set_device,
    synchronize,
)
from torch_tpu.accelerator.memory import (
    OutOfMemoryError,
    empty_cache,
    max_memory_allocated,
    max_memory_cached,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_cached,
    memory_reserved,
    memory_stats,
    memory_stats_as_nested_dict,
    memory_summary,
    reset_accumulated_memory_stats,
    reset_max_memory_allocated,
    reset_max_memory_cached,
    reset_peak_memory_stats,
)
from torch_tpu.accelerator.modes import (
    EagerMode,
    Precision,
    get_eager_mode,
    precision,
    set_eager_mode,
)
from torch_tpu.accelerator.properties import (
    DeviceProperties,
    get_amp_supported_dtype,
    get_device_capability,
    get_device_name,
    get_device_properties,
    is_bf16_supported,
)
from torch_tpu.accelerator.random import (
    default_generators,
    get_rng_state,
    get_rng_state_all,
    initial_seed,
    manual_seed,
    manual_seed_all,
    seed,
    seed_all,
    set_rng_state,
    set_rng_state_all,
)
from torch_tpu.accelerator.streams import (
    Event,
    Stream,
    StreamContext,
    current_stream,
    default_stream,
    set_stream,
    stream,
)

__all__ = [
    "DeviceProperties",
    "EagerMode",
    "Event",
    "OutOfMemoryError",
    "Precision",
    "Stream",
    "StreamContext",
    "amp",
    "batching",
    "compiler",
    "current_device",
    "current_stream",
    "default_generators",
    "default_stream",
    "device",
    "device_count",
    "device_of",
    "devices",
    "eager_mode",
    "empty_cache",
    "get_amp_supported_dtype",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_eager_mode",
    "get_rng_state",
    "get_rng_state_all",
    "higher_order",
    "init",
    "initial_seed",
    "is_available",
    "is_bf16_supported",
    "is_initialized",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_cached",
    "max_memory_reserved",
    "mem_get_info",
    "memory",
    "memory_allocated",
    "memory_cached",
    "memory_reserved",
    "memory_stats",
    "memory_stats_as_nested_dict",
    "memory_summary",
    "modes",
    "modules",
    "precision",
    "printing",
    "properties",
    "random",
    "reset_accumulated_memory_stats",
    "reset_max_memory_allocated",
    "reset_max_memory_cached",
    "reset_peak_memory_stats",
    "seed",
    "seed_all",
    "set_device",
    "set_eager_mode",
    "set_rng_state",
    "set_rng_state_all",
    "set_stream",
    "stream",
    "streams",
    "synchronize",
]


def _is_in_bad_fork() -> bool:
    return _C.is_in_bad_fork()


_lazy_init = init


class _Module(types.ModuleType):
    """``torch.tpu``, with what must be read each time as a property."""

    @property
    def eager_mode(self) -> EagerMode:
        return get_eager_mode()

    @property
    def _initialized(self) -> bool:  # torch.utils.checkpoint asks before it saves the RNG state
        return is_initialized()


def __dir__() -> list[Any]:
    return sorted({*__all__, *globals()})


sys.modules[__name__].__class__ = _Module
