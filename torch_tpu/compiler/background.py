"""Programs that compile while their ops run one by one."""

from __future__ import annotations

import functools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from torch_tpu import compiler
from torch_tpu.compiler.node import Program
from torch_tpu.compiler.trace import Trace


def compile_later(trace: Trace, done: Callable[[Program | None], None]) -> None:
    """Compile on another thread, then call ``done`` there; with None where it failed."""
    _executor().submit(_compile, trace, done)


def _compile(trace: Trace, done: Callable[[Program | None], None]) -> None:
    program = None
    try:
        program = compiler.program(trace)
    except Exception as error:
        compiler.report_failed_fusion(trace, str(error))
    done(program)


@functools.cache
def _executor() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix="torch_tpu-compile")
