"""What happened so far: counts of ops, programs, cache hits, and ops that ran on the CPU."""

from torch_tpu import _C


def counters() -> dict[str, int]:
    """Ops, executions, lowerings, compiles, cache hits, fallbacks and host syncs, by name."""
    return _C.counters()


def reset_counters() -> None:
    _C.reset_counters()


def fallbacks() -> dict[str, int]:
    """How often each op without a lowering ran on the CPU, by overload name."""
    return _C.fallbacks()
