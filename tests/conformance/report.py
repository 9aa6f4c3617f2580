"""What the runs showed, as JSON with a letter per entry and run, and as a page."""

from __future__ import annotations

import collections
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from databases import DATABASES
from families import FAMILIES, family_of
from known_failures import why_on_the_cpu
from plan import Run, every_run, samples_of

LETTERS = {"passed": "p", "failed": "f", "known": "k", "skipped": "."}
WORDS = {letter: word for word, letter in LETTERS.items()}
MARKS = "<!-- begin: written by tests/conformance/run.py -->", "<!-- end -->"

Place = tuple[Run, str]
Row = dict[str, Any]
Rows = dict[Place, Row]


# ---- JSON


def save(path: Path, rows: Rows) -> None:
    """One line per entry of a database, with a letter for each of the database's runs."""
    databases = {}
    for database in DATABASES:
        runs = [run for run in every_run() if run.database == database]
        runs = [run for run in runs if any(place[0] == run for place in rows)]
        names = sorted({name for run, name in rows if run.database == database})
        databases[database] = {
            "runs": ["/".join(run[1:]) for run in runs],
            "entries": {
                name: "".join(_letter(rows.get((run, name))) for run in runs) for name in names
            },
        }
    written = {
        "letters": LETTERS | {"not run": "-"},
        "databases": databases,
        "known": _by_run(rows, lambda row: [row["known"]] if row["outcome"] == "known" else []),
        "fallbacks": _by_run(rows, lambda row: row.get("fallbacks", [])),
        "errors": [
            {**run._asdict(), "name": name, "error": row["error"]}
            for (run, name), row in sorted(rows.items())
            if row["outcome"] == "failed"
        ],
    }
    path.write_text(json.dumps(written, indent=1) + "\n")


def _letter(row: Row | None) -> str:
    return "-" if row is None else LETTERS[row["outcome"]]


def _by_run(rows: Rows, keys: Any) -> dict[str, dict[str, str]]:
    """Names of entries, separated by spaces, by what ``keys`` says of a row and by run."""
    found: dict[str, dict[str, list[str]]] = {}
    for (run, name), row in sorted(rows.items()):
        for key in keys(row):
            found.setdefault(key, {}).setdefault("/".join(run), []).append(name)
    return {
        key: {run: " ".join(names) for run, names in runs.items()}
        for key, runs in sorted(found.items())
    }


def load(path: Path) -> Rows:
    """The rows of a file that ``save`` wrote."""
    if not path.exists():
        return {}
    read = json.loads(path.read_text())
    rows: Rows = {}
    for database, each in read["databases"].items():
        runs = [Run(database, *run.split("/")) for run in each["runs"]]
        for name, letters in each["entries"].items():
            for run, letter in zip(runs, letters, strict=True):
                if letter in WORDS:
                    rows[run, name] = {"outcome": WORDS[letter]}
    for place, why in _places(read["known"]):
        rows[place]["known"] = why
    for place, op in _places(read["fallbacks"]):
        rows[place].setdefault("fallbacks", []).append(op)
    for row in read["errors"]:
        rows[Run(*(row[field] for field in Run._fields)), row["name"]]["error"] = row["error"]
    return rows


def _places(found: dict[str, dict[str, str]]) -> Iterable[tuple[Place, str]]:
    for key, runs in found.items():
        for run, names in runs.items():
            for name in names.split():
                yield (Run(*run.split("/")), name), key


# ---- the page


def write_page(path: Path, rows: Rows) -> None:
    before, _, rest = path.read_text().partition(MARKS[0])
    _, _, after = rest.partition(MARKS[1])
    path.write_text(f"{before}{MARKS[0]}\n{page(rows)}\n{MARKS[1]}{after}")


def page(rows: Rows) -> str:
    parts = [_counts(database, rows) for database in DATABASES]
    parts += [_missing(rows), _failed(rows), _known(rows), _fallbacks(rows)]
    return "\n\n".join(part for part in parts if part)


def _table(head: list[str], body: Iterable[list[str]], words: int | None = None) -> str:
    """A table whose columns after the first ``words`` are numbers."""
    rule = ["---" if words is None or place < words else "---:" for place in range(len(head))]
    return "\n".join(f"| {' | '.join(line)} |" for line in [head, rule, *body])


def _counts(database: str, rows: Rows) -> str:
    """Entries that pass by run and family, with those that are known to fail or do fail."""
    families = FAMILIES if database == "ops" else ()
    runs = [run for run in every_run() if run.database == database]
    body = []
    for run in runs:
        found = {name: row["outcome"] for (each, name), row in rows.items() if each == run}
        if not found:
            continue
        cells = [_cell(found.values())]
        for family in families:
            cells.append(_cell(word for name, word in found.items() if family_of(name) == family))
        body.append([run.mode, run.dtype, run.form, *cells])
    if not body:
        return ""
    head = ["mode", "dtype", "form", "all", *families]
    return f"### {database}\n\n" + _table(head, body, words=3)


def _cell(outcomes: Iterable[str]) -> str:
    count = collections.Counter(outcomes)
    text = str(count["passed"])
    if count["known"]:
        text += f", {count['known']} known"
    if count["failed"]:
        text += f", **{count['failed']} failed**"
    return text


def _missing(rows: Rows) -> str:
    """The runs of plan.py that there are no results of."""
    seen = {run for run, _ in rows}
    dtypes: dict[tuple[str, str, str], list[str]] = {}
    for run in every_run():
        if run not in seen and samples_of(run):
            dtypes.setdefault((run.database, run.mode, run.form), []).append(run.dtype)
    body = [[*where, " ".join(each)] for where, each in dtypes.items()]
    head = ["database", "mode", "form", "dtypes"]
    return "### Not run yet\n\n" + _table(head, body) if body else ""


def _failed(rows: Rows) -> str:
    body = [
        [*run, f"`{name}`", row["error"].replace("|", "\\|")]
        for (run, name), row in sorted(rows.items())
        if row["outcome"] == "failed"
    ]
    head = [*Run._fields, "entry", "error"]
    return "### Failed\n\n" + (_table(head, body) if body else "None.")


def _known(rows: Rows) -> str:
    """Every cause with where it shows, entries that share their runs together."""
    causes: dict[str, dict[str, list[Run]]] = {}
    for (run, name), row in sorted(rows.items()):
        if row["outcome"] == "known":
            causes.setdefault(row["known"], {}).setdefault(name, []).append(run)
    body = []
    for why, names in sorted(causes.items()):
        places: dict[str, list[str]] = {}
        for name, runs in names.items():
            places.setdefault(_described(runs), []).append(f"`{name}`")
        where = "; ".join(f"{', '.join(each)} ({runs})" for runs, each in places.items())
        body.append([why, where])
    return "### Known to fail\n\n" + (_table(["cause", "where"], body) if body else "Nothing.")


def _described(runs: list[Run]) -> str:
    """The modes, dtypes and forms that a list of runs has."""
    axes = (sorted({run[axis] for run in runs}) for axis in (1, 2, 3))
    return ", ".join(" ".join(values) for values in axes)


def _fallbacks(rows: Rows) -> str:
    """Which ops ran on the CPU, why, and in which entries."""
    found: dict[str, set[str]] = {}
    for (_, name), row in rows.items():
        for op in row.get("fallbacks", []):
            found.setdefault(op, set()).add(f"`{name}`")
    body = [[f"`{op}`", why_on_the_cpu(op), ", ".join(sorted(found[op]))] for op in sorted(found)]
    table = _table(["op", "why", "in the samples of"], body) if body else "None."
    return f"### Ops that run on the CPU\n\n{table}"
