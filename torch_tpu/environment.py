"""Every TORCH_TPU_* environment variable: its type, default and meaning, in one table."""

import os
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PAGE = Path("docs/environment.md")

TRUE_WORDS = ("1", "true", "yes", "on")
FALSE_WORDS = ("0", "false", "no", "off", "")


@dataclass(frozen=True)
class Kind:
    """How a variable's text becomes a value; ``parse`` raises ValueError for what does not fit."""

    parse: Callable[[str], Any]
    expected: str
    show: Callable[[Any], str] = str


@dataclass(frozen=True)
class Variable:
    name: str
    kind: Kind
    default: Any
    meaning: str

    def read(self) -> Any:
        """The value that is set, or the default. ValueError names the variable and what fits."""
        text = os.environ.get(self.name)
        if text is None:
            return self.default
        try:
            return self.kind.parse(text.strip())
        except ValueError:
            raise ValueError(
                f"{self.name}={text!r} is not understood: expected {self.kind.expected}"
            ) from None


def _parse_flag(text: str) -> bool:
    word = text.lower()
    if word not in TRUE_WORDS + FALSE_WORDS:
        raise ValueError(text)
    return word in TRUE_WORDS


def _parse_count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


def parse_size(text: str) -> int:
    """Bytes, from "5GB", "500 MB", "2GiB" or "123"; ValueError for anything else."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(?:([kmgt])(i?)b?|b)?", text.strip().lower())
    if match is None:
        raise ValueError(f"{text!r} is not a size: expected {SIZES}")
    number, unit, binary = match.groups()
    power = "kmgt".index(unit) + 1 if unit else 0
    return round(float(number) * (1024 if binary else 1000) ** power)


def format_size(number: float) -> str:
    """A size as people write it: 1.2 GB."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if number < 1000:
            return f"{number:.3g} {unit}"
        number /= 1000
    return f"{number:.3g} TB"


def _parse_directory(text: str) -> str:
    if "://" in text:
        raise ValueError(text)
    return text


def choice(*words: str) -> Kind:
    def parse(text: str) -> str:
        if text.lower() not in words:
            raise ValueError(text)
        return text.lower()

    return Kind(parse, f"one of {', '.join(words)}")


SIZES = "a size, such as 5GB, 500MB or a number of bytes"
FLAG = Kind(_parse_flag, "0 or 1")
COUNT = Kind(_parse_count, "a whole number from 1 on")
TEXT = Kind(str, "a text")
PATH = Kind(lambda text: text, "the path of a file")
SIZE = Kind(parse_size, SIZES, format_size)
DIRECTORY = Kind(_parse_directory, "the path of a directory (mount an object store's bucket)")

_TABLE = (
    Variable(
        "TORCH_TPU_PLATFORM",
        choice("auto", "cpu", "tpu", "cuda"),
        "auto",
        "Which PJRT plugin serves the device. `auto`: a TPU where one is attached, else a GPU "
        "whose plugin is installed, else the CPU.",
    ),
    Variable(
        "TORCH_TPU_PJRT_PLUGIN",
        PATH,
        None,
        "A PJRT plugin's shared library to load instead of the installed one.",
    ),
    Variable(
        "TORCH_TPU_CPU_DEVICES",
        COUNT,
        1,
        "How many devices the CPU plugin offers.",
    ),
    Variable(
        "TORCH_TPU_EAGER_MODE",
        choice("strict", "fused", "debug"),
        None,
        "The eager mode to start in; `strict` when nothing is set. See eager-modes.md.",
    ),
    Variable(
        "TORCH_TPU_LAUNCH_BLOCKING",
        FLAG,
        False,
        "1 starts in debug mode: every op waits for the device. TORCH_TPU_EAGER_MODE wins.",
    ),
    Variable(
        "TORCH_TPU_DEFER_AND_FUSE",
        FLAG,
        False,
        "1 starts in fused mode. TORCH_TPU_EAGER_MODE and TORCH_TPU_LAUNCH_BLOCKING win.",
    ),
    Variable(
        "XLA_TPU_EAGER_FUSE_MODE",
        FLAG,
        False,
        "Another name for TORCH_TPU_DEFER_AND_FUSE.",
    ),
    Variable(
        "TORCH_TPU_ASYNC_COMPILE",
        FLAG,
        True,
        "0 makes fused mode wait for each new program instead of running its ops one by one while "
        "it compiles.",
    ),
    Variable(
        "TORCH_TPU_MAX_PROGRAMS",
        COUNT,
        4096,
        "How many compiled programs a process keeps in memory; the one that ran longest ago goes "
        "first.",
    ),
    Variable(
        "TORCH_TPU_CACHE",
        choice("rw", "ro", "off", "require"),
        "rw",
        "What is done with compiled programs on disk: read and write, read only, nothing, or read "
        "and raise where one is missing. See compile-cache.md.",
    ),
    Variable(
        "TORCH_TPU_CACHE_DIR",
        DIRECTORY,
        None,
        "Where this host keeps compiled programs; a folder `torch_tpu` in the user's cache "
        "directory (`$XDG_CACHE_HOME` or `~/.cache`) when nothing is set.",
    ),
    Variable(
        "TORCH_TPU_CACHE_SIZE",
        SIZE,
        10_000_000_000,
        "How large that directory may get; programs that were used longest ago go first.",
    ),
    Variable(
        "TORCH_TPU_SHARED_CACHE_DIR",
        DIRECTORY,
        None,
        "A directory of compiled programs that several hosts share: read before compiling, written "
        "after.",
    ),
    Variable(
        "XLA_PERSISTENT_CACHE_PATH",
        DIRECTORY,
        None,
        "Another name for TORCH_TPU_SHARED_CACHE_DIR, which wins.",
    ),
    Variable(
        "TORCH_TPU_FALLBACK",
        choice("warn", "allow", "error"),
        "warn",
        "What an op without a lowering does: run on the CPU with one warning per op, run there "
        "silently, or raise.",
    ),
    Variable(
        "TORCH_TPU_NAN_CHECKS",
        FLAG,
        False,
        "1 makes debug mode raise at the first op whose result holds a NaN or an infinity.",
    ),
    Variable(
        "TORCH_TPU_PRINT_OPS",
        FLAG,
        False,
        "1 makes debug mode print each op and the shapes of its results on standard error.",
    ),
    Variable(
        "TORCH_TPU_EXPLAIN",
        FLAG,
        False,
        "1 prints on standard error, when the process ends, what fused mode ran and why. See "
        "eager-modes.md.",
    ),
    Variable(
        "TORCH_TPU_MINIFY",
        FLAG,
        False,
        "1 makes a graph that can't be compiled leave a script of its smallest failing part, in "
        "the option `dump_dir` of torch.compile or the current folder; the error names it.",
    ),
    Variable(
        "TORCH_TPU_SANITIZE",
        TEXT,
        "",
        "Read by setup.py: sanitizers to build the extension with, such as `address,undefined`.",
    ),
)

VARIABLES = {variable.name: variable for variable in _TABLE}


def read(name: str) -> Any:
    """The parsed value of one variable of the table."""
    return VARIABLES[name].read()


def page() -> str:
    """docs/environment.md."""

    def default(variable: Variable) -> str:
        if variable.default in (None, ""):
            return ""
        value = variable.default
        return f"`{int(value) if isinstance(value, bool) else variable.kind.show(value)}`"

    rows = [
        f"| `{variable.name}` | {variable.kind.expected} | {default(variable)} | "
        f"{variable.meaning} |"
        for variable in VARIABLES.values()
    ]
    return "\n".join(
        [
            "# Environment variables",
            "",
            "Generated from `torch_tpu/environment.py` by `make docs`. What a program sets in "
            "Python wins over the environment. A value that is not understood is an error that "
            "names the variable. `TORCH_DEVICE_BACKEND_AUTOLOAD=0` is torch's own: it keeps "
            "`import torch` from loading this package (`import torch_tpu` still does).",
            "",
            "| variable | values | default | meaning |",
            "| --- | --- | --- | --- |",
            *rows,
            "",
        ]
    )


def main(arguments: list[str]) -> int:
    """Writes the page, or with --check says whether the one on disk is current."""
    check = "--check" in arguments
    target = Path(next((each for each in arguments if each != "--check"), PAGE))
    if not check:
        target.write_text(page())
    elif not target.exists() or target.read_text() != page():
        print(f"{target} is out of date: run make docs", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
