"""What happened: counts of ops, programs and cache hits; ops that ran on the CPU; flushes."""

from torch_tpu import _C
from torch_tpu.diagnostics import fallback
from torch_tpu.diagnostics.explain import explain
from torch_tpu.diagnostics.fallback import fallback_policy, fallbacks

__all__ = [
    "cache_statistics",
    "counters",
    "explain",
    "fallback_policy",
    "fallbacks",
    "reset_counters",
]


def counters() -> dict[str, int]:
    """Ops, executions, lowerings, compiles, cache hits, fallbacks and host syncs, by name."""
    return _C.counters()


def cache_statistics() -> dict[str, int]:
    """The compile cache: entries and bytes on disk; hits, misses, writes and rejected entries."""
    from torch_tpu.compiler import cache

    return cache.statistics()


def reset_counters() -> None:
    """Starts counters() and fallbacks() again from zero."""
    _C.reset_counters()
    fallback.reset()
