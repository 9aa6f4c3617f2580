"""``python -m torch_tpu``: the package's commands."""

import argparse
import sys
from collections.abc import Sequence

from torch_tpu.compiler.cache import command as cache
from torch_tpu.diagnostics import command as explain


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; returns the process's exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m torch_tpu", description="torch_tpu's commands."
    )
    commands = parser.add_subparsers(required=True, metavar="command")
    for command in (cache, explain):
        command.add_to(commands)
    options = parser.parse_args(arguments)
    return options.run(options)


if __name__ == "__main__":
    sys.exit(main())
