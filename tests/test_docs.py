"""What the documentation shows works: its blocks marked ``run``, its make targets, its links."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from torch_tpu.dynamo.options import FIELDS

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(\w+)( run)?\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def blocks(page, *languages, run_only=False):
    found = BLOCK.findall(page.read_text())
    return [text for name, run, text in found if name in languages and (run or not run_only)]


def pages_with(*languages, run_only=False):
    chosen = [page for page in PAGES if blocks(page, *languages, run_only=run_only)]
    return [pytest.param(page, id=page.name) for page in chosen]


@pytest.mark.parametrize("page", pages_with("python", run_only=True))
def test_python_blocks_run_in_the_order_of_the_page(run_python, page):
    run_python("\n".join(blocks(page, "python", run_only=True)), quiet=False)


@pytest.mark.parametrize("page", pages_with("sh", run_only=True))
def test_commands_run_from_the_root_of_the_repository(page):
    commands = "\n".join(blocks(page, "sh", run_only=True))
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["sh", "-euc", commands],
        capture_output=True,
        text=True,
        timeout=240,
        cwd=ROOT,
        env=os.environ | {"PATH": path, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("page", pages_with("python"))
def test_python_blocks_parse(page):
    assert all(compile(text, page.name, "exec") for text in blocks(page, "python"))


def test_make_targets_exist():
    shown = {
        target
        for page in PAGES
        for line in re.findall(r"^make ([\w -]+)", "\n".join(blocks(page, "sh")), re.MULTILINE)
        for target in re.split(" {2,}", line)[0].split()
    }
    makefile = (ROOT / "Makefile").read_text()
    assert {"setup", "demo", "test"} <= shown
    assert shown <= set(re.findall(r"^([\w-]+):", makefile, re.MULTILINE))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page):
    targets = re.findall(r"\]\(([^)#:]+)\)", page.read_text())
    assert [target for target in targets if not (page.parent / target).exists()] == []


def test_the_table_of_options_has_every_option_with_its_default():
    page = (ROOT / "docs" / "compile.md").read_text()
    shown = dict(re.findall(r"^\| `(\w+)` \| `([^`]+)` \|", page, re.MULTILINE))
    assert shown == {name: repr(field.default) for name, field in FIELDS.items()}
