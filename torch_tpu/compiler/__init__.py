"""What the recorder asks on a miss: how an op's numbers enter, what a call does, its program.

Each answer is looked up in the compile cache first. JAX is imported only where that has none: a
process whose programs are all on disk never loads it.
"""

from __future__ import annotations

import warnings

from torch_tpu.compiler import store
from torch_tpu.compiler.node import Node, Plan, Program
from torch_tpu.compiler.store import must_not_compile
from torch_tpu.compiler.trace import Trace

__all__ = ["describe", "must_not_compile", "plan", "program", "stored_program"]


def describe(op: str) -> list[bool] | None:
    """Which arguments' numbers are inputs of an op's programs; None for an op without a rule."""
    return store.answer(
        b"op:" + op.encode(), f"arguments of {op}", lambda: _building().describe(op)
    )


def plan(node: Node, key: bytes, ordinal: int, bound: int | None) -> Plan | None:
    """What a call does, with ``bound`` for outputs of at most that length.

    Raises what CPU PyTorch raises for the call. None where only the CPU can run it.
    """
    key = b"call:%s:%s:%d" % (node.op.encode(), key, bound or 0)
    made = store.answer(key, f"results of {node.op}", lambda: _building().plan(node, bound))
    if made is None:
        return None
    made.key = key
    if made.asks_size:
        made.size_program = program(Trace.of_size(made, ordinal))
    return made


def program(trace: Trace) -> Program:
    """The executable of a trace. In the cache's mode ``require`` a miss raises RuntimeError."""
    return store.program(trace, lambda: _building().compile_trace(trace))


def stored_program(trace: Trace) -> Program | None:
    """The executable of a trace where it needs no compilation."""
    return store.program(trace, None)


def _building():
    from torch_tpu.compiler import building

    return building


def report_failed_fusion(trace: Trace, reason: str) -> None:
    """Warn, once per trace, that its ops run one by one because its program could not be made."""
    warnings.warn(
        f"torch_tpu: {trace.label} could not be compiled as one program and run one by one: "
        f"{reason}",
        stacklevel=2,
    )
