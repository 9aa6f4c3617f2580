"""Compiles a program of every rule for TPUs that are not there, and writes what libtpu says.

    python tests/conformance/tpu_run.py [--names REGEX] [--dtype bfloat16] [--workers 2] ...

Samples of the databases run on the CPU plugin; each program that they ask for is also lowered for
TPUs and compiled for the topologies. The work is done in child processes, as libtpu aborts where
it finds no words for an error. The exit status tells of too few programs that compile.
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path
from typing import Any

os.environ.setdefault("TORCH_TPU_CACHE_DIR", os.path.abspath("build/test-cache"))

TOPOLOGIES = "v5e:2x2", "tpu7x:2x2x1"
SECONDS = 120  # a program that takes longer counts as refused
LEAST = 0.97
ATTEMPTS, RESTARTS = 3, 100
FOLDER = Path("build/tpu-conformance")
MARKS = "<!-- tpu: begin -->", "<!-- tpu: end -->"

Row = dict[str, Any]
Key = tuple[str, str, str]  # rule, dtype, topology


def key_of(row: Row) -> Key:
    return row["rule"], row["dtype"], row["topology"]


class Journal:
    """The rows of one worker, a line each, written before and after a program is compiled.

    A program whose second line is missing is the one that ended the process. Lines of samples say
    how often each was begun, and that it is done.
    """

    def __init__(self, path: Path):
        self.path = path
        self.rows: dict[Key, Row] = {}
        self.begun: collections.Counter[tuple[str, str]] = collections.Counter()
        self.done: set[tuple[str, str]] = set()
        lines = path.read_text().splitlines() if path.exists() else []
        for row in map(json.loads, lines):
            if "rule" in row:
                self.rows[key_of(row)] = row
            elif row["done"]:
                self.done.add((row["sample"], row["dtype"]))
            else:
                self.begun[row["sample"], row["dtype"]] += 1

    def begin(self, sample: str, dtype: str) -> bool:
        """Whether to run a sample: not twice, nor where it ended the process time and again."""
        if (sample, dtype) in self.done or self.begun[sample, dtype] >= ATTEMPTS:
            return False
        self._append({"sample": sample, "dtype": dtype, "done": False})
        return True

    def end(self, sample: str, dtype: str) -> None:
        """A sample is done."""
        self._append({"sample": sample, "dtype": dtype, "done": True})

    def write(self, row: Row) -> None:
        self.rows[key_of(row)] = row
        self._append(row)

    def _append(self, row: Row) -> None:
        with self.path.open("a") as file:
            file.write(json.dumps(row) + "\n")


# ---- in a worker


def work(options: argparse.Namespace) -> None:
    """Run the samples of a shard and compile what they ask for, but for what a journal has."""
    import torch
    from tpu_programs import DTYPES, programs_of, rule_of, sources

    from torch_tpu.compiler.target import Topology

    warnings.simplefilter("ignore")
    journal = Journal(options.journal)
    done = set(journal.rows)
    for others in options.journal.parent.glob("*.jsonl"):
        done |= set(Journal(others).rows)
    targets = {name: Topology(name) for name in TOPOLOGIES}
    shard, shards = map(int, options.shard.split("/"))
    for dtype in DTYPES:
        word = str(dtype).removeprefix("torch.")
        if options.dtype not in (None, word):
            continue
        for number, (name, run) in enumerate(sources(dtype)):
            if number % shards != shard or not re.fullmatch(options.names, name):
                continue
            if not journal.begin(name, word):
                continue
            for trace in programs_of(run):
                for topology, target in targets.items():
                    row = {"rule": rule_of(trace), "dtype": word, "topology": topology}
                    if key_of(row) not in done:
                        done.add(key_of(row))
                        _compile(trace, target, row | {"sample": name}, journal)
            journal.end(name, word)
    torch.tpu.synchronize()


def _compile(trace: Any, target: Any, row: Row, journal: Journal) -> None:
    from torch_tpu.compiler.building import compile_trace

    journal.write(row | {"error": "the process ended"})

    def give_up() -> None:
        journal.write(row | {"error": f"not compiled after {SECONDS} s"})
        os._exit(1)

    watch = threading.Timer(SECONDS, give_up)
    watch.start()
    began = time.time()
    try:
        compile_trace(trace, target)
        error = None
    except Exception as refusal:  # whatever it is, it is what is reported
        error = f"{type(refusal).__name__}: {refusal}"
    watch.cancel()
    journal.write(row | {"error": error, "seconds": round(time.time() - began, 2)})


# ---- in the driver


def run_shard(options: argparse.Namespace, number: int) -> None:
    """One shard's worker, which is started again where a program ended it."""
    path = FOLDER / f"{number}.jsonl"
    command = [
        *(sys.executable, __file__, "--names", options.names, "--journal", str(path)),
        *("--shard", f"{number}/{options.shards}"),
        *(("--dtype", options.dtype) if options.dtype else ()),
    ]
    for _ in range(RESTARTS):
        with (FOLDER / f"{number}.log").open("w") as log:
            done = subprocess.run(command, stdout=log, stderr=log)
        if done.returncode == 0:
            return
    raise RuntimeError(f"shard {number} does not come to an end: see {log.name}")


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


def write_page(path: Path, rows: list[Row]) -> None:
    before, _, rest = path.read_text().partition(MARKS[0])
    _, _, after = rest.partition(MARKS[1])
    path.write_text(f"{before}{MARKS[0]}\n{page(rows)}\n{MARKS[1]}{after}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--names", default=".*", help="which samples, by name")
    parser.add_argument("--dtype")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--shards", type=int, default=8)
    parser.add_argument("--resume", action="store_true", help="go on where the last run ended")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--page", type=Path)
    parser.add_argument("--shard", help=argparse.SUPPRESS)
    parser.add_argument("--journal", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.journal:
        work(options)
        return 0
    if not options.resume:
        shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True, exist_ok=True)
    with concurrent.futures.ThreadPoolExecutor(options.workers) as pool:
        list(pool.map(lambda number: run_shard(options, number), range(options.shards)))
    found: dict[Key, Row] = {}
    for journal in FOLDER.glob("*.jsonl"):
        found |= Journal(journal).rows
    rows = [found[key] for key in sorted(found)]
    if options.json:
        options.json.write_text(json.dumps(rows, indent=0) + "\n")
    if options.page:
        write_page(options.page, rows)
    print(page(rows))
    compiled = sum(row["error"] is None for row in rows)
    print(f"{compiled} of {len(rows)} programs compile")
    return 0 if compiled >= LEAST * len(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
