"""``python -m torch_tpu explain``: run a script and say what fused mode made of it."""

import argparse
import os
import runpy
import sys
from typing import Any

from torch_tpu.accelerator import modes
from torch_tpu.diagnostics.explain import explain


def add_to(commands: Any) -> None:
    """Adds ``explain`` to the subparsers of the package's command."""
    parser = commands.add_parser(
        "explain",
        help="run a script in fused mode and say what was run when, and why",
        description="Runs a Python script and then prints what fused mode ran, and why. The "
        "script runs in fused mode unless it or TORCH_TPU_EAGER_MODE says otherwise.",
    )
    parser.add_argument("script", help="a Python file")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="the script's own arguments")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    if modes.environment_mode() is None:
        modes.set_eager_mode("fused")
    sys.argv = [options.script, *options.arguments]
    sys.path[0] = os.path.dirname(os.path.abspath(options.script))  # as Python itself does
    with explain():
        runpy.run_path(options.script, run_name="__main__")
    return 0
