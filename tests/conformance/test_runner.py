"""The runner survives what it runs, keeps what it found, and its tables name what there is."""

import os
import time
from pathlib import Path

import children
import pytest
import report
from databases import DATABASES, DTYPES
from families import FAMILIES, family_of
from known_failures import TABLE, reason
from modes import MODES
from plan import Run, chosen, samples_of

RUN = Run("ops", "strict", "float32", "functional")


def _survivors(work, places):
    def failed(place, why):
        return {"place": place, "error": why}

    return {row["place"]: row for row in children.rows_of(work, [places], failed, processes=1)}


def test_a_process_that_dies_costs_one_entry():
    def work(place):
        if place == "dies":
            os.abort()
        return {"place": place}

    rows = _survivors(work, ["first", "dies", "last"])
    assert rows["dies"]["error"] == "the process died of SIGABRT"
    assert rows["first"] == {"place": "first"} and rows["last"] == {"place": "last"}


def test_an_entry_that_hangs_costs_one_entry(monkeypatch):
    monkeypatch.setattr(children, "SECONDS", 0.5)

    def work(place):
        time.sleep(60 if place == "hangs" else 0)
        return {"place": place}

    rows = _survivors(work, ["first", "hangs", "last"])
    assert rows["hangs"]["error"] == "not done after 0.5 s"
    assert rows.keys() == {"first", "hangs", "last"}


def test_rows_are_read_as_they_were_saved(tmp_path):
    rows = {
        (RUN, "add"): {"outcome": "passed"},
        (RUN, "argwhere"): {"outcome": "known", "known": "it is known"},
        (RUN, "sum"): {"outcome": "failed", "error": "ValueError: no | good"},
        (RUN._replace(form="forward AD"), "add"): {"outcome": "passed", "fallbacks": ["aten::a"]},
        (RUN._replace(form="forward AD"), "sum"): {"outcome": "skipped"},
        (Run("modules", "fused", "float32", "forward"), "nn.ReLU"): {"outcome": "passed"},
    }
    report.save(tmp_path / "rows.json", rows)
    assert report.load(tmp_path / "rows.json") == rows


def test_the_page_has_every_outcome_and_fallback():
    rows = {
        (RUN, "add"): {"outcome": "passed", "fallbacks": ["aten::a"]},
        (RUN, "mul"): {"outcome": "known", "known": "it is known"},
        (RUN, "sum"): {"outcome": "failed", "error": "ValueError: no | good"},
    }
    page = report.page(rows)
    assert "| strict | float32 | functional | 1, 1 known, **1 failed** | 1, 1 known |" in page
    assert "| it is known | `mul` (strict, float32, functional) |" in page
    assert "| `sum` | ValueError: no \\| good |" in page
    assert "| `aten::a` | no lowering yet | `add` |" in page


def test_the_page_shows_the_results_that_are_kept():
    docs = Path(__file__).parents[2] / "docs"
    shown = (docs / "conformance.md").read_text()
    assert report.page(report.load(docs / "conformance.json")) in shown


def test_every_known_failure_is_an_entry_of_its_database():
    entries = {(name, each.name) for name, one in DATABASES.items() for each in one.entries()}
    assert {(row.database, name) for row in TABLE for name in row.names.split()} <= entries


def test_every_known_failure_names_modes_dtypes_and_forms_that_exist():
    for row in TABLE:
        words = [set(filter(None, axis.split(","))) for axis in (row.modes, row.dtypes, row.forms)]
        known = set(MODES), set(DTYPES), set(DATABASES[row.database].forms)
        assert all(named <= known for named, known in zip(words, known, strict=True)), row


def test_known_failures_hold_in_their_own_runs_alone():
    assert reason(*RUN, "argwhere")
    assert reason(*RUN._replace(dtype="int64"), "topk") and not reason(*RUN, "topk")


def test_options_may_ask_for_runs_that_the_whole_leaves_out():
    assert chosen(lambda run: run == RUN) == [RUN] and samples_of(RUN)
    other = Run("ops", "fused", "int64", "functional")
    assert samples_of(other) is None and chosen(lambda run: run == other) == [other]


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("add", "pointwise"),
        ("_refs.sum", "reductions"),
        ("linalg.svd", "linear algebra"),
        ("torch.ops.aten._safe_softmax.default", "nn.functional"),
        ("special.i0e", "special functions"),
        ("scatter_reduce.sum", "indexing and shape"),
    ],
)
def test_a_name_tells_an_ops_family(name, family):
    assert family_of(name) == family and family in FAMILIES
