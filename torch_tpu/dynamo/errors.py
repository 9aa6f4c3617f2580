"""What is raised where a graph's program can't be made: the op, the user's line, the smallest part.

A failing graph is made smaller as long as it still fails.
"""

from __future__ import annotations

import textwrap
from pathlib import Path

import torch

from torch_tpu import environment
from torch_tpu.dynamo import minify, text
from torch_tpu.dynamo.program import GraphSource

LONGEST = 40  # lines of a graph that a message shows


class CompileError(RuntimeError):
    """A graph that can't be compiled; the message names the op, the line and what else fails."""


def explained(source: GraphSource, error: Exception) -> Exception:
    """The exception to raise in place of one from tracing or compiling."""
    from torch_tpu.dynamo.interpreter import GraphError

    lines = text.lines_of(source.graph)
    where = source.label + (f" ({lines})" if lines else "")
    if isinstance(error, torch.OutOfMemoryError):  # smaller parts would fit: they say nothing
        return torch.OutOfMemoryError(f"torch_tpu: {where} can't be compiled: {error}")
    if isinstance(error, GraphError):
        message, cause = f"{error}\nIn {where}.", error.__cause__
    elif flag := minify.wrong_flag(source, error):
        return CompileError(f"torch_tpu: the plugin refuses the XLA flag {flag}: {error}")
    else:
        message, cause = f"torch_tpu: {where} can't be compiled: {error}", None
    raised = CompileError(f"{message}{_smallest(source, error)}")
    raised.__cause__ = _without_notes(cause)
    return raised


def _smallest(source: GraphSource, error: Exception) -> str:
    wanted = environment.read("TORCH_TPU_MINIFY")
    smallest = minify.smallest(source, error, seconds=120 if wanted else 10)
    if smallest is None:
        return ""
    lines = text.function(smallest.graph).splitlines()
    if len(lines) > LONGEST:
        lines[LONGEST - 2 : -1] = [f"    ...  # {len(lines) - LONGEST + 1} more"]
    shown = textwrap.indent("\n".join(lines), "    ")
    return f"\nThe smallest part that fails so:\n{shown}\n" + (
        f"A script that reproduces it: {_write(smallest, source.options.dump_dir)}"
        if wanted
        else "TORCH_TPU_MINIFY=1 writes a script that reproduces it."
    )


def _write(smallest: GraphSource, dump_dir: str | None) -> Path:
    folder = Path(dump_dir or ".")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"torch_tpu_minified_{smallest.graph.digest.hex()[:8]}.py"
    path.write_text(minify.script(smallest))
    return path.resolve()


def _without_notes(cause: BaseException | None) -> BaseException | None:
    """JAX says in notes that it hid its own frames."""
    if cause is not None:
        cause.__notes__ = [
            note
            for note in getattr(cause, "__notes__", [])
            if "JAX_TRACEBACK_FILTERING" not in note
        ]
    return cause
