"""Programs that compile while their ops run one by one."""

from __future__ import annotations

from collections.abc import Callable

from torch_tpu import compiler, workers
from torch_tpu.compiler.node import Program
from torch_tpu.compiler.trace import Trace


def compile_later(trace: Trace, done: Callable[[Program | None], None]) -> None:
    """Compile on another thread, then call ``done`` there; with None where it failed."""
    if workers.submit("compile", lambda: _compile(trace, done)) is None:
        done(None)


def _compile(trace: Trace, done: Callable[[Program | None], None]) -> None:
    program = None
    try:
        program = compiler.program(trace)
    except Exception as error:
        compiler.report_failed_fusion(trace, str(error))
    done(program)
