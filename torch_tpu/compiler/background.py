"""Programs that compile while their ops run one by one."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from torch_tpu import compiler
from torch_tpu.compiler.node import Program
from torch_tpu.compiler.trace import Trace


def compile_later(trace: Trace, done: Callable[[Program | None], None]) -> None:
    """Compile on another thread, then call ``done`` there; with None where it failed."""
    try:
        _executor().submit(_compile, trace, done)
    except RuntimeError:  # the interpreter is about to end
        done(None)


def _compile(trace: Trace, done: Callable[[Program | None], None]) -> None:
    program = None
    try:
        program = compiler.program(trace)
    except Exception as error:
        compiler.report_failed_fusion(trace, str(error))
    done(program)


@functools.cache
def _executor() -> ThreadPoolExecutor:
    executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="torch_tpu-compile")
    # A process that ends waits for the program in work, which goes to disk, and for no other.
    # Python's own hook would wait for all, and hooks run last in, first out.
    threading._register_atexit(lambda: executor.shutdown(wait=False, cancel_futures=True))
    return executor
