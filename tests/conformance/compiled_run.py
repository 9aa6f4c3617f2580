"""Runs the compiled databases, and writes what they show into JSON and a page.

    python tests/conformance/compiled_run.py [--database ops] [--names REGEX] [--shard 0/8] ...

prints one line per entry that fails, with what the same does under ``aot_eager`` on the CPU, and
a summary. The exit status tells of failures without a reason in known_compiled_failures.py, and of
reasons that are no longer true.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import sys
import time
import traceback
import warnings
from pathlib import Path
from typing import Any

os.environ.setdefault("TORCH_TPU_CACHE_DIR", os.path.abspath("build/test-cache"))

from compiled_samples import DATABASES, Entry, check_entry, on_cpu_without_backend
from known_compiled_failures import REASONS

SECONDS = 240  # an entry that takes longer has failed
MARKS = "<!-- compiled: begin -->", "<!-- compiled: end -->"


def _too_long(*_: Any) -> None:
    raise TimeoutError(f"not done after {SECONDS} s")


def run_entry(database: str, entry: Entry, samples: int, trace: bool) -> dict[str, Any]:
    """One line of the JSON: what an entry did."""
    known = REASONS[database].get(entry.name)
    began = time.time()
    signal.signal(signal.SIGALRM, _too_long)
    signal.alarm(SECONDS)
    try:
        cases = check_entry(entry, samples)
        row: dict[str, Any] = {"outcome": "passed" if cases else "skipped", "cases": cases}
    except Exception as error:
        if trace:
            traceback.print_exc()
        row = {"outcome": "failed", "error": f"{type(error).__name__}: {error}"}
        if known is None:
            row["aot_eager"] = _on_cpu(entry, samples)
    finally:
        signal.alarm(0)
    return {
        "database": database,
        "name": entry.name,
        "seconds": round(time.time() - began, 2),
        "known": known,
        **row,
    }


def _on_cpu(entry: Entry, samples: int) -> str | None:
    try:
        return on_cpu_without_backend(entry, samples)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def verdict(row: dict[str, Any]) -> str:
    """passed, skipped, known, failed, or wrong where a reason is no longer true."""
    if row["outcome"] == "failed":
        return "known" if row["known"] else "failed"
    return "wrong" if row["known"] else row["outcome"]


def merged(path: Path, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows of earlier shards with these in their places."""
    earlier = json.loads(path.read_text()) if path.exists() else []
    by_name = {(row["database"], row["name"]): row for row in [*earlier, *rows]}
    return [by_name[key] for key in sorted(by_name)]


def page(rows: list[dict[str, Any]]) -> str:
    """What the rows show, as Markdown."""
    lines = [
        "| database | entries that pass | known to fail | failed |",
        "| --- | ---: | ---: | ---: |",
    ]
    reasons: dict[str, list[str]] = {}
    for database in DATABASES:
        found = [verdict(row) for row in rows if row["database"] == database]
        counts = [found.count(each) for each in ("passed", "known", "failed")]
        lines.append(f"| {database} | {counts[0]} | {counts[1]} | {counts[2]} |")
    for row in rows:
        if verdict(row) == "known":
            reasons.setdefault(row["known"], []).append(f"`{row['name']}`")
    lines += ["", "| cause | where |", "| --- | --- |"]
    lines += [f"| {why} | {', '.join(names)} |" for why, names in sorted(reasons.items())]
    return "\n".join(lines)


def write_page(path: Path, rows: list[dict[str, Any]]) -> None:
    before, _, rest = path.read_text().partition(MARKS[0])
    _, _, after = rest.partition(MARKS[1])
    path.write_text(f"{before}{MARKS[0]}\n{page(rows)}\n{MARKS[1]}{after}")


def run(options: argparse.Namespace) -> list[dict[str, Any]]:
    shard, shards = map(int, options.shard.split("/"))
    rows = []
    for database, entries in DATABASES.items():
        if options.database not in (None, database):
            continue
        for number, entry in enumerate(entries()):
            if number % shards != shard or not re.fullmatch(options.names, entry.name):
                continue
            rows.append(run_entry(database, entry, options.samples, options.trace))
            _show(rows[-1], options.verbose)
    return rows


def _show(row: dict[str, Any], verbose: bool) -> None:
    found = verdict(row)
    if found in ("failed", "wrong") or verbose:
        detail = row.get("error", row["known"] if found == "wrong" else "") or ""
        line = f"{found.upper()} {row['database']} {row['name']} ({row['seconds']}s) {detail[:300]}"
        control = row.get("aot_eager")
        print(line + (f" | aot_eager: {control[:200]}" if control else ""), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--database", choices=DATABASES)
    parser.add_argument("--names", default=".*")
    parser.add_argument("--samples", type=int, default=2)
    parser.add_argument("--shard", default="0/1")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--page", type=Path)
    parser.add_argument("--trace", action="store_true")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = run(options)
    if options.json:
        written = merged(options.json, rows)
        options.json.write_text(json.dumps(written, indent=1))
        if options.page:
            write_page(options.page, written)
    verdicts = [verdict(row) for row in rows]
    print({each: verdicts.count(each) for each in sorted(set(verdicts))})
    return 1 if {"failed", "wrong"} & set(verdicts) else 0


if __name__ == "__main__":
    sys.exit(main())
