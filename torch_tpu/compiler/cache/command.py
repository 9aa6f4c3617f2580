"""``python -m torch_tpu cache``: look at the directories of compiled programs, and tidy them."""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from torch_tpu import environment
from torch_tpu.compiler.cache import locations
from torch_tpu.compiler.cache.directory import Directory, Removed, Stored
from torch_tpu.compiler.cache.entry import Damaged
from torch_tpu.compiler.cache.trust import Untrusted
from torch_tpu.environment import format_size

_DESCRIPTION = """\
Compiled programs are kept on disk, so that the next process need not compile them.
Without --shared, the commands are about this host's directory (TORCH_TPU_CACHE_DIR);
with it, about the one that hosts share (TORCH_TPU_SHARED_CACHE_DIR)."""

_AGES = (("day", 86400), ("hour", 3600), ("minute", 60), ("second", 1))


def add_to(commands: Any) -> None:
    """Adds ``cache`` to the subparsers of the package's command."""
    parser = commands.add_parser(
        "cache",
        help="look at the compiled programs on disk, and tidy them",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    actions = parser.add_subparsers(required=True, metavar="action")
    _add(actions, "info", info, "where the programs are, how many, and for which targets")
    _add(actions, "list", list_entries, "every program: size, age of its last use, name")
    verify = _add(actions, "verify", verify_entries, "read every program and check it")
    verify.add_argument("--delete", action="store_true", help="delete those that are damaged")
    prune = _add(actions, "prune", prune_entries, "delete what was used longest ago")
    prune.add_argument(
        "--max-size",
        type=_size,
        metavar="SIZE",
        help="what may stay, such as 5GB or 500MB; TORCH_TPU_CACHE_SIZE without --shared",
    )
    _add(actions, "clear", clear_entries, "delete every program")


def _add(
    actions: Any, name: str, function: Callable[..., int], summary: str
) -> argparse.ArgumentParser:
    parser = actions.add_parser(name, help=summary, description=f"{summary.capitalize()}.")
    parser.add_argument("--shared", action="store_true", help="the directory that hosts share")
    parser.set_defaults(run=_reporting(function))
    return parser


def _size(text: str) -> int:
    try:
        return environment.parse_size(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _reporting(function: Callable[..., int]) -> Callable[[argparse.Namespace], int]:
    """Runs on the directory that was asked for; what is wrong with it is one line and status 2."""

    def run(options: argparse.Namespace) -> int:
        try:
            return function(_directory(options.shared), options)
        except (ValueError, RuntimeError, OSError, Untrusted) as error:
            print(f"error: {error}", file=sys.stderr)
            return 2

    return run


def _directory(shared: bool) -> Directory:
    directory = locations.shared_directory() if shared else locations.disk_directory()
    if directory is None:
        raise ValueError("no shared directory is named: set TORCH_TPU_SHARED_CACHE_DIR")
    return directory


def info(directory: Directory, options: argparse.Namespace) -> int:
    """Prints the directory, its size, and the targets that it has programs for."""
    stored = list(directory.entries())
    limit = "set by prune" if options.shared else format_size(_limit())
    print(f"directory  {directory.root}")
    print(f"state      {_state(directory)}")
    print(f"mode       {environment.read('TORCH_TPU_CACHE')}")
    print(f"programs   {len(stored):,}")
    print(f"size       {format_size(sum(each.size for each in stored))} (limit: {limit})")
    counts = Counter(each.path.parent.name for each in stored)
    for name, facts in directory.facts().items():
        print(f"\n{name}: {_programs(counts[name])}")
        for fact, value in facts.items():
            if value:
                print(f"  {fact:<18}{value}")
    return 0


def _limit() -> int:
    return environment.read("TORCH_TPU_CACHE_SIZE")


def _state(directory: Directory) -> str:
    try:
        directory.check()
    except FileNotFoundError:
        return "not there yet"
    except Untrusted as error:
        return f"refused: {error}"
    return "in use"


def list_entries(directory: Directory, options: argparse.Namespace) -> int:
    """Prints one line per program, the one used last first."""
    now = time.time()
    for stored in sorted(directory.entries(), key=lambda each: each.used, reverse=True):
        size = format_size(stored.size)
        print(f"{size:>10}  {_age(now - stored.used):>14}  {_label(directory, stored)}")
    return 0


def _label(directory: Directory, stored: Stored) -> str:
    try:
        return directory.header(stored).label
    except Damaged as damage:
        return f"[{stored.path.name} {damage}]"
    except (Untrusted, OSError) as error:
        return f"[{error}]"


def _age(seconds: float) -> str:
    for unit, length in _AGES:
        count = int(seconds // length)
        if count >= 1:
            return f"{count} {unit}{'s' if count > 1 else ''} ago"
    return "just now"


def verify_entries(directory: Directory, options: argparse.Namespace) -> int:
    """Prints what is wrong with each program that can't be used; status 1 where there is one."""
    sound, unusable = 0, 0
    for stored, trouble in directory.verify():
        if trouble is None:
            sound += 1
            continue
        unusable += 1
        print(f"{stored.path} {trouble}")
        if options.delete:
            stored.path.unlink(missing_ok=True)
    print(f"{sound:,} sound, {unusable:,} {'deleted' if options.delete else 'unusable'}")
    return 1 if unusable and not options.delete else 0


def prune_entries(directory: Directory, options: argparse.Namespace) -> int:
    """Deletes the programs used longest ago, down to the size that may stay."""
    if options.max_size is None and options.shared:
        raise ValueError("how large the shared directory may be is yours to say: --max-size SIZE")
    limit = _limit() if options.max_size is None else options.max_size
    return _print_removed(directory.prune(limit))


def clear_entries(directory: Directory, options: argparse.Namespace) -> int:
    """Deletes every program, and no other file."""
    return _print_removed(directory.clear())


def _print_removed(removed: Removed) -> int:
    print(f"deleted {_programs(removed.entries)}, {format_size(removed.bytes)}")
    return 0


def _programs(count: int) -> str:
    return f"{count:,} program{'' if count == 1 else 's'}"
