"""Runs PyTorch's databases on the device beside the CPU, in each mode, dtype and form.

    python tests/conformance/run.py [--mode fused] [--database ops] [--dtype int64] [--form out] ...

prints a line per entry that fails and a summary. Without filters it runs what plan.py lists. The
exit status tells of failures without a reason in known_failures.py, and of reasons that are no
longer true.
"""

from __future__ import annotations

import argparse
import collections
import functools
import os
import re
import sys
import time
import traceback
import warnings
from pathlib import Path

os.environ.setdefault("TORCH_TPU_CACHE_DIR", os.path.abspath("build/test-cache"))
# A trace that is new is compiled at once, or what fused mode computes would not be seen.
os.environ.setdefault("TORCH_TPU_ASYNC_COMPILE", "0")

import report
import torch
from children import Row, rows_of
from databases import DATABASES, DTYPES, Entry
from known_failures import reason
from modes import MODES, check_entry, on_cpu_without_backend
from plan import Run, chosen, entries_of, samples_for

import torch_tpu

# Entries of one process: what Dynamo and XLA keep of a thousand programs is not given back.
BATCH = {"strict": 250, "fused": 200, "compiled": 60}
LONGEST = 240  # letters of an error that are kept
SAVE_EVERY = 120  # seconds: a run that is ended early keeps what it found

Place = tuple[Run, str]


@functools.cache
def _entries(run: Run) -> dict[str, Entry]:
    return {entry.name: entry for entry in entries_of(run)}


def check_place(place: Place, samples: int | None, trace: bool) -> Row:
    """What an entry does in a run; in a child process."""
    run, name = place
    entry, count = _entries(run)[name], samples or samples_for(run, name)
    warnings.simplefilter("ignore")
    torch_tpu.diagnostics.fallback_policy("allow")
    torch_tpu.diagnostics.reset_counters()
    began = time.monotonic()
    try:
        checked = check_entry(entry, count, run.mode, DTYPES[run.dtype], run.form)
        row: Row = {"outcome": "passed" if checked else "skipped"}
    except Exception as error:
        if trace:
            traceback.print_exc()
        row = {"outcome": "failed", "error": _described(error)}
        if run.mode == "compiled" and not reason(*run, name):
            row["error"] += f" | aot_eager on the CPU: {_on_cpu(entry, count, run)}"
    ops = sorted(torch_tpu.diagnostics.fallbacks())
    return {"place": place, **row, "fallbacks": ops, "seconds": time.monotonic() - began}


def _described(error: Exception) -> str:
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return re.sub(r"0x[0-9a-f]{6,}", "0x...", text)[:LONGEST]


def _on_cpu(entry: Entry, count: int, run: Run) -> str | None:
    try:
        return on_cpu_without_backend(entry, count, DTYPES[run.dtype], run.form)
    except Exception as error:
        return _described(error)


def judged(place: Place, row: Row, every_sample: bool = False) -> Row:
    """The row with its verdict: known where it fails with a reason, wrong where it should have."""
    run, name = place
    why = reason(*run, name)
    if why and row["outcome"] in ("failed", "known"):
        return {**row, "outcome": "known", "known": why}
    wrong = why is not None and row["outcome"] == "passed" and every_sample
    return {**row, "wrong": f"no longer true: {why}"} if wrong else row


def judged_anew(rows: report.Rows) -> report.Rows:
    """Earlier results by today's reasons; what failed for one that went is not known to fail."""
    judgements = {place: judged(place, row) for place, row in rows.items()}
    return {
        (run, name): row
        for (run, name), row in judgements.items()
        if row["outcome"] != "known" or reason(*run, name)
    }


def batches(options: argparse.Namespace) -> list[list[Place]]:
    """The places that options ask for, in pieces for one process each."""
    shard, shards = map(int, options.shard.split("/"))

    def wanted(run: Run) -> bool:
        asked = (options.database, options.mode, options.dtype, options.form)
        return all(not values or value in values for values, value in zip(asked, run, strict=True))

    found = []
    for run in chosen(wanted):
        names = [name for name in _entries(run) if re.fullmatch(options.names, name)]
        places = [(run, name) for name in names[shard::shards]]
        size = BATCH[run.mode]
        found += [places[first : first + size] for first in range(0, len(places), size)]
    return found


def show(row: Row, verbose: bool) -> None:
    run, name = row["place"]
    told = row.get("wrong") or (row["outcome"] == "failed" and row["error"])
    if told or verbose:
        word = "WRONG" if "wrong" in row else row["outcome"].upper()
        print(word, *run, name, f"({row['seconds']:.1f} s)", told or "", flush=True)


def summary(rows: list[Row]) -> str:
    """Outcomes and seconds of each run."""
    lines = []
    by_run: dict[Run, list[Row]] = {}
    for row in rows:
        by_run.setdefault(row["place"][0], []).append(row)
    for run, each in by_run.items():
        counts = collections.Counter(row["outcome"] for row in each)
        told = ", ".join(f"{count} {word}" for word, count in sorted(counts.items()))
        lines.append(f"{' '.join(run)}: {told} in {sum(row['seconds'] for row in each):.0f} s")
    return "\n".join(lines)


def write(options: argparse.Namespace, rows: list[Row]) -> None:
    """Merge results into those of --json, and write the page of all."""
    if not options.json:
        return
    written = judged_anew(report.load(options.json)) | {row["place"]: row for row in rows}
    report.save(options.json, written)
    if options.page:
        report.write_page(options.page, written)


def parser() -> argparse.ArgumentParser:
    forms = {form for database in DATABASES.values() for form in database.forms}
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--database", action="append", choices=DATABASES)
    parser.add_argument("--mode", action="append", choices=MODES)
    parser.add_argument("--dtype", action="append", choices=DTYPES)
    parser.add_argument("--form", action="append", choices=sorted(forms))
    parser.add_argument("--names", default=".*", help="a regular expression for whole names")
    parser.add_argument("--samples", type=int, help="of an entry, instead of plan.py's")
    parser.add_argument("--shard", default="0/1", help="I/N takes every N-th entry from the I-th")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--json", type=Path, help="where results are merged into earlier ones")
    parser.add_argument("--page", type=Path, help="the page that is written from --json")
    parser.add_argument("--trace", action="store_true")
    parser.add_argument("--verbose", action="store_true")
    return parser


def main() -> int:
    options = parser().parse_args()
    began = time.monotonic()
    work = functools.partial(check_place, samples=options.samples, trace=options.trace)

    def failed(place: Place, why: str) -> Row:
        return {"place": place, "outcome": "failed", "error": why, "seconds": 0.0}

    rows: list[Row] = []
    saved = began
    for row in rows_of(work, batches(options), failed, options.processes):
        rows.append(judged(row["place"], row, every_sample=options.samples is None))
        show(rows[-1], options.verbose)
        if time.monotonic() - saved > SAVE_EVERY:
            write(options, rows)
            saved = time.monotonic()
    print(summary(rows), f"{time.monotonic() - began:.0f} s", sep="\n")
    write(options, rows)
    return 1 if any(row["outcome"] == "failed" or "wrong" in row for row in rows) else 0


if __name__ == "__main__":
    # The threads of one process would fight those of the other.
    torch.set_num_threads(1)
    sys.exit(main())
