"""python -m torch_tpu cache: what it prints, what it deletes, how it fails."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from caches import OTHER, cache_at, files, used_ago

from torch_tpu.__main__ import main
from torch_tpu.compiler.cache import command

ROOT = Path(__file__).parents[3]


@pytest.fixture
def places(tmp_path, monkeypatch):
    """A directory of this host with three programs, and a shared one with one of them."""
    disk, shared = tmp_path / "disk", tmp_path / "shared"
    monkeypatch.setenv("TORCH_TPU_CACHE_DIR", str(disk))
    monkeypatch.setenv("TORCH_TPU_SHARED_CACHE_DIR", str(shared))
    monkeypatch.delenv("TORCH_TPU_CACHE", raising=False)
    monkeypatch.delenv("TORCH_TPU_CACHE_SIZE", raising=False)
    cache_at(disk, shared).put(b"add", bytes(1000), "aten::add.Tensor")
    cache_at(disk).put(b"mul", bytes(2000), "aten::mul.Tensor")
    cache_at(disk, namespace=OTHER).put(b"add", bytes(3000), "fused program of 312 ops")
    return disk, shared


@pytest.fixture
def run(capsys):
    def run(*arguments, status=0):
        assert main(["cache", *arguments]) == status
        printed = capsys.readouterr()
        return printed.err if status == 2 else printed.out

    return run


def file_of(disk, label):
    (path,) = [path for path in files(disk) if label.encode() in path.read_bytes()]
    return path


def test_info(run, places):
    printed = run("info")
    for line in (
        rf"directory +{places[0]}",
        r"state +in use",
        r"mode +rw",
        r"programs +3",
        r"size +6\.\d+ kB \(limit: 10 GB\)",
        rf"{OTHER.name}: 1 program",
        r"  torch +2\.13\.1",
    ):
        assert re.search(f"^{line}$", printed, re.MULTILINE), (line, printed)
    assert f"directory  {places[1]}\n" in run("info", "--shared")


def test_info_says_why_a_directory_is_refused(run, places):
    places[0].chmod(0o777)
    assert "refused: " in run("info") and "mode 777" in run("info")


def test_list_shows_the_last_used_first(run, places):
    used_ago(file_of(places[0], "add.Tensor"), 2 * 86400 + 60)
    used_ago(file_of(places[0], "mul.Tensor"), 61)
    lines = run("list").splitlines()
    assert [re.split(r"  +", line.strip())[1:] for line in lines] == [
        ["just now", "fused program of 312 ops"],
        ["1 minute ago", "aten::mul.Tensor"],
        ["2 days ago", "aten::add.Tensor"],
    ]
    assert len(run("list", "--shared").splitlines()) == 1


def test_list_shows_what_is_damaged(run, places):
    path = file_of(places[0], "mul.Tensor")
    path.write_bytes(b"foreign")
    assert f"[{path.name} is not a cache entry]" in run("list")


def test_verify(run, places):
    assert run("verify") == "3 sound, 0 unusable\n"
    path = file_of(places[0], "mul.Tensor")
    path.write_bytes(path.read_bytes()[:-1])
    printed = run("verify", status=1)
    assert printed.startswith(f"{path} is truncated: ")
    assert printed.endswith("2 sound, 1 unusable\n")
    assert path.exists()
    assert run("verify", "--delete").endswith("2 sound, 1 deleted\n")
    assert not path.exists() and len(files(places[0])) == 2


def test_prune(run, places):
    oldest = file_of(places[0], "mul.Tensor")
    used_ago(oldest, 1000)
    assert run("prune").startswith("deleted 0 programs")
    assert run("prune", "--max-size", "5kB") == "deleted 1 program, 2.19 kB\n"
    assert not oldest.exists() and len(files(places[1])) == 1


def test_prune_does_not_guess_the_size_of_a_shared_directory(run, places):
    assert "--max-size" in run("prune", "--shared", status=2)
    assert run("prune", "--shared", "--max-size", "0").startswith("deleted 1 program,")


def test_clear(run, places):
    assert run("clear").startswith("deleted 3 programs")
    assert list(places[0].iterdir()) == [] and len(files(places[1])) == 1


def test_a_directory_that_is_not_there(run, places, monkeypatch):
    monkeypatch.setenv("TORCH_TPU_CACHE_DIR", str(places[0] / "missing"))
    assert "not there yet" in run("info")
    assert run("list") == ""
    assert run("verify").startswith("0 sound")
    assert run("prune").startswith("deleted 0") and run("clear").startswith("deleted 0")
    assert not (places[0] / "missing").exists()


def test_mistakes_are_one_line(run, places, monkeypatch, capsys):
    monkeypatch.delenv("TORCH_TPU_SHARED_CACHE_DIR")
    assert run("info", "--shared", status=2) == (
        "error: no shared directory is named: set TORCH_TPU_SHARED_CACHE_DIR\n"
    )
    with pytest.raises(SystemExit):
        main(["cache", "prune", "--max-size", "5 bananas"])
    assert "'5 bananas' is not a size" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [[], ["cache"], ["cache", "prune"]])
def test_help(arguments, capsys):
    with pytest.raises(SystemExit) as exit:
        main([*arguments, "--help"])
    printed = capsys.readouterr().out
    assert exit.value.code == 0 and "usage: python -m torch_tpu" in printed
    assert max(map(len, printed.splitlines())) <= 100


def test_ages():
    ages = {-5: "just now", 0.5: "just now", 1: "1 second ago", 7200: "2 hours ago"}
    assert {seconds: command._age(seconds) for seconds in ages} == ages


def test_it_runs_as_a_module_without_a_plugin(places):
    environment = os.environ | {"TORCH_TPU_PLATFORM": "tpu", "TORCH_TPU_PJRT_PLUGIN": "/missing"}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "torch_tpu", "cache", "verify"],
        capture_output=True,
        text=True,
        env=environment,
        cwd=ROOT,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "3 sound, 0 unusable\n"
