"""Figures with the bound that each must keep: a table that says which do, and a JSON file."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Collection, Sequence
from pathlib import Path

import measure


@dataclasses.dataclass(frozen=True)
class Figure:
    """One number; without a bound it is there to be read only."""

    label: str
    value: float
    unit: str
    least: float | None = None
    most: float | None = None

    @property
    def bound(self) -> str:
        if self.least is not None:
            return f">= {self.least:g}"
        return "" if self.most is None else f"<= {self.most:g}"

    @property
    def held(self) -> bool:
        """NaN holds no bound."""
        above = self.least is None or self.value >= self.least
        return above and (self.most is None or self.value <= self.most)

    @property
    def verdict(self) -> str:
        return ("yes" if self.held else "NO") if self.bound else ""


def options(description: str | None) -> argparse.ArgumentParser:
    """A parser with the options that every benchmark of bounds has."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--results", type=Path, default=measure.RESULTS, help="where the JSON file goes"
    )
    return parser


def parsed(
    parser: argparse.ArgumentParser, sections: Collection[str], workloads: Collection[str]
) -> argparse.Namespace:
    """What a benchmark in sections that pairs workloads was called with; exits for a mistake."""
    names = list(workloads)
    parser.add_argument("sections", nargs="*", metavar="section", help=", ".join(sections))
    parser.add_argument("--workloads", nargs="+", default=names, choices=names, metavar="NAME")
    parser.add_argument("--seconds", type=float, default=8.0, help="how long each pair is run for")
    parser.add_argument("--pairs", type=int, default=7, help="how many pairs there are at least")
    chosen = parser.parse_args()
    if unknown := set(chosen.sections) - set(sections):
        parser.error(f"no section {', '.join(sorted(unknown))}; there are {', '.join(sections)}")
    return chosen


def report(name: str, figures: Sequence[Figure], folder: Path) -> None:
    """Prints the table and writes ``folder``/<name>.json."""
    rows = [("", "figure", "unit", "bound", "held")]
    rows += [(each.label, each.value, each.unit, each.bound, each.verdict) for each in figures]
    written = {
        each.label: {
            "value": each.value,
            "unit": each.unit,
            "bound": each.bound,
            "held": each.held if each.bound else None,
        }
        for each in figures
    }
    measure.report(name, written, rows, "medians", folder)
    missed = [each.label for each in figures if not each.held]
    print(f"  missed: {', '.join(missed)}" if missed else "  every bound is held")
