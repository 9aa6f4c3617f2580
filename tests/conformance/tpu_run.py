"""Compiles a program of every rule for TPUs that are not there, and writes what libtpu says.

    python tests/conformance/tpu_run.py [--names REGEX] [--dtype bfloat16] [--processes 2] ...

Samples of the databases run on the CPU plugin; each program that they ask for is also lowered for
TPUs and compiled for the topologies. The work is done in child processes, as libtpu aborts where
it finds no words for an error. The exit status tells of too few programs that compile.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import re
import sys
import time
import warnings
from functools import cache
from pathlib import Path
from typing import Any

os.environ.setdefault("TORCH_TPU_CACHE_DIR", os.path.abspath("build/test-cache"))

from children import Row, rows_of
from tpu_programs import DTYPES, Recorded, programs_of, sources

from torch_tpu.compiler.target import Topology
from torch_tpu.lowering import registry

TOPOLOGIES = "v5e:2x2", "tpu7x:2x2x1"
LEAST = 0.97
BATCH = 60  # samples of one process
MARKS = "<!-- tpu: begin -->", "<!-- tpu: end -->"

Place = tuple[str, str]  # dtype, sample
Key = tuple[str, str, str]  # rule, dtype, topology

# What has been compiled: a child has it as it was when it was forked.
found: dict[Key, Row] = {}


@cache
def _targets() -> dict[str, Topology]:
    return {name: Topology(name) for name in TOPOLOGIES}


@cache
def _sources() -> dict[Place, Any]:
    words = {str(dtype).removeprefix("torch."): dtype for dtype in DTYPES}
    return {(word, name): run for word, dtype in words.items() for name, run in sources(dtype)}


def key_of(row: Row) -> Key:
    return row["rule"], row["dtype"], row["topology"]


def check_place(place: Place) -> Row:
    """Compile what a sample asks for, but for what is known; in a child process."""
    warnings.simplefilter("ignore")
    dtype, sample = place
    rows = []
    for recorded in programs_of(_sources()[place]):
        for topology, target in _targets().items():
            known = {"dtype": dtype, "topology": topology, "sample": sample}
            all_rules = [known | {"rule": rule} for rule in recorded.rules]
            new = [row for row in all_rules if key_of(row) not in found]
            if new:
                result = _compiled(recorded, target)
                rows += [row | result for row in new]
                found.update((key_of(row), row | result) for row in new)
    return {"programs": rows}


def _compiled(recorded: Recorded, target: Topology) -> Row:
    began = time.monotonic()
    try:
        recorded.compile(target)
        error = None
    except Exception as refusal:  # whatever it is, it is what is reported
        error = f"{type(refusal).__name__}: {refusal}"
    return {"error": error, "seconds": round(time.monotonic() - began, 2)}


def not_survived(place: Place, why: str) -> Row:
    """What stands for the programs of a sample that ended the process or hung."""
    dtype, sample = place
    known = {"rule": f"sample {sample}", "dtype": dtype, "sample": sample, "error": why}
    return {"programs": [known | {"topology": topology} for topology in TOPOLOGIES]}


def family(error: str) -> str:
    """What libtpu says, without what differs from program to program."""
    first = next(
        (line for line in error.splitlines() if "Error" in line or "UNIMPLEMENTED" in line), error
    )
    first = re.sub(r"(%[\w.-]+|\w+\[[\d,<=]*\](\{[^}]*\})?)", "…", first)
    return re.sub(r"\s+", " ", first).replace("|", "/")[:180].strip()


def page(rows: list[Row]) -> str:
    """What the rows show, as Markdown."""
    lines = [
        "| topology | dtype | programs | compiled | refused |",
        "| --- | --- | ---: | ---: | ---: |",
    ]
    groups = collections.defaultdict(list)
    for row in rows:
        groups[row["topology"], row["dtype"]].append(row["error"] is None)
    for (topology, dtype), compiled in sorted(groups.items()):
        share = f"{sum(compiled)} ({100 * sum(compiled) / len(compiled):.1f} %)"
        refused = compiled.count(False)
        lines.append(f"| {topology} | {dtype} | {len(compiled)} | {share} | {refused} |")
    refusals = collections.defaultdict(set)
    for row in rows:
        if row["error"] is not None:
            refusals[family(row["error"])].add(f"`{row['rule']}` ({row['dtype']})")
    lines += ["", "| what is said | of the rules |", "| --- | --- |"]
    lines += [f"| {said} | {', '.join(sorted(of))} |" for said, of in sorted(refusals.items())]
    return "\n".join(lines)


def without_program(rows: list[Row]) -> str:
    """Which rules no sample reaches, as Markdown."""
    reached = {row["rule"].removeprefix("length of ") for row in rows}
    rules = {str(overload) for overload in registry.rules()}
    names = ", ".join(f"`{name.removesuffix('.default')}`" for name in sorted(rules - reached))
    return f"Of {len(rules)} rules {len(rules & reached)} have a program here. Without: {names}."


def write_page(path: Path, rows: list[Row]) -> None:
    before, _, rest = path.read_text().partition(MARKS[0])
    _, _, after = rest.partition(MARKS[1])
    found = f"{page(rows)}\n\n{without_program(rows)}"
    path.write_text(f"{before}{MARKS[0]}\n{found}\n{MARKS[1]}{after}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--names", default=".*", help="which samples, by name")
    parser.add_argument("--dtype")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--json", type=Path, help="where results are merged into earlier ones")
    parser.add_argument("--page", type=Path)
    options = parser.parse_args()
    places = [
        (dtype, name)
        for dtype, name in _sources()
        if options.dtype in (None, dtype) and re.fullmatch(options.names, name)
    ]
    batches = [places[first : first + BATCH] for first in range(0, len(places), BATCH)]
    for each in rows_of(check_place, batches, not_survived, options.processes):
        found.update((key_of(row), row) for row in each["programs"])
    written = dict(found)
    if options.json and options.json.exists():
        written = {key_of(row): row for row in json.loads(options.json.read_text())} | written
    rows = [written[key] for key in sorted(written)]
    if options.json:
        options.json.write_text(json.dumps(rows, indent=0) + "\n")
    if options.page:
        write_page(options.page, rows)
    print(page(list(found.values())))
    compiled = sum(row["error"] is None for row in found.values())
    print(f"{compiled} of {len(found)} programs compile")
    return 0 if compiled >= LEAST * len(found) else 1


if __name__ == "__main__":
    sys.exit(main())
