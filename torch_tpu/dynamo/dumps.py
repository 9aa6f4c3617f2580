"""Each program's texts for who wants to read them: options dump_dir and debug_callback."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from pathlib import Path

from torch_tpu.dynamo import text
from torch_tpu.dynamo.program import GraphSource

FILES = {"graph": "graph.py", "stablehlo": "stablehlo.mlir", "hlo": "optimized_hlo.txt"}


def watcher(source: GraphSource) -> Callable[[str, str], None] | None:
    """What is told each text by its name as it is made."""
    options = source.options
    if options.dump_dir is None and options.debug_callback is None:
        return None

    def show(name: str, content: str) -> None:
        if options.dump_dir is not None:
            path = folder_of(source, options.dump_dir) / FILES[name]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
        if options.debug_callback is not None and name == "stablehlo":
            options.debug_callback(content)

    show("graph", text.function(source.graph) + "\n")
    return show


def folder_of(source: GraphSource, dump_dir: str) -> Path:
    """A folder of its own for each program, the same whenever it is compiled."""
    name = re.sub(r"\W+", "_", source.label)
    return Path(dump_dir) / f"{name}_{hashlib.sha256(source.key()).hexdigest()[:8]}"
