"""The runs that ``make conformance`` is made of, and those that options may ask for besides."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import NamedTuple

from databases import DATABASES, DTYPES, Entry
from known_failures import reason
from modes import MODES


class Run(NamedTuple):
    """What is the same for all entries of a run."""

    database: str
    mode: str
    dtype: str
    form: str


class Part(NamedTuple):
    """Runs that ``make conformance`` takes, and of how many samples; None stands for all."""

    samples: int
    databases: tuple[str, ...]
    modes: tuple[str, ...]
    dtypes: tuple[str, ...] | None = ("float32",)
    forms: tuple[str, ...] | None = None

    def has(self, run: Run) -> bool:
        return all(
            values is None or value in values for values, value in zip(self[1:], run, strict=True)
        )


COMMON = ("float32", "bfloat16", "complex64", "int64", "bool")
CALLS = ("functional", "noncontiguous", "inplace", "out")

# The first part that has a run decides its number of samples.
PARTS = (
    Part(2, ("ops",), ("strict",), COMMON, ("functional",)),
    Part(1, ("ops",), ("strict",), None, CALLS),
    Part(1, ("ops",), ("strict",)),
    Part(1, ("ops",), ("fused",), forms=CALLS),
    Part(2, ("ops",), ("compiled",), forms=("functional",)),
    Part(1, ("foreach",), ("strict",), COMMON),
    Part(1, ("foreach",), ("fused", "compiled"), forms=("functional",)),
    Part(1, ("references",), ("strict",)),
    Part(2, ("modules",), ("strict",), ("float32", "float64")),
    Part(2, ("modules",), ("fused", "compiled"), forms=("forward",)),
    Part(2, ("optimizers",), ("strict", "fused", "compiled")),
)
DEFAULT_SAMPLES = 2


def samples_of(run: Run) -> int | None:
    """How many samples of an entry ``make conformance`` takes; None where it leaves the run out."""
    return next((part.samples for part in PARTS if part.has(run)), None)


def samples_for(run: Run, name: str) -> int:
    """How many samples of an entry: at least those that the reasons of what fails are told of."""
    planned = samples_of(run) or DEFAULT_SAMPLES
    return max(planned, DEFAULT_SAMPLES) if reason(*run, name) else planned


def every_run() -> Iterator[Run]:
    for name, database in DATABASES.items():
        yield from itertools.starmap(Run, itertools.product([name], MODES, DTYPES, database.forms))


def chosen(wanted: Callable[[Run], bool]) -> list[Run]:
    """The runs of ``make conformance`` that are wanted, or else all that are."""
    runs = [run for run in every_run() if wanted(run)]
    return [run for run in runs if samples_of(run)] or runs


def entries_of(run: Run) -> list[Entry]:
    dtype = DTYPES[run.dtype]
    return [entry for entry in DATABASES[run.database].entries() if dtype in entry.dtypes]
