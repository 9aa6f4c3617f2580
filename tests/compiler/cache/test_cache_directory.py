"""A directory of entries: eviction, leftovers, clearing, permissions."""

import os
import stat
import time

import pytest
from caches import NAMESPACE, OTHER, cache_at, files, only_file, used_ago

from torch_tpu.compiler.cache import tiers
from torch_tpu.compiler.cache.directory import DAY, Directory


def fill(root, *keys, size=1000, **options):
    cache = cache_at(root, **options)
    paths = {}
    for key in keys:
        before = set(files(root))
        cache.put(key, bytes(size), key.decode())
        (paths[key],) = set(files(root)) - before
    return cache, paths


def test_what_was_used_longest_ago_goes_first(tmp_path):
    cache, paths = fill(tmp_path, b"a", b"b", b"c")
    for age, key in enumerate((b"c", b"b", b"a"), start=1):
        used_ago(paths[key], age * 1000)
    assert cache.get(b"a") is not None  # reading it makes it the last that was used
    size = paths[b"a"].stat().st_size
    removed = Directory(tmp_path).prune(2 * size)
    assert (removed.entries, removed.bytes) == (1, size)
    assert set(files(tmp_path)) == {paths[b"a"], paths[b"c"]}


def test_pruning_to_what_is_there_removes_nothing(tmp_path):
    _, paths = fill(tmp_path, b"a", b"b")
    total = sum(path.stat().st_size for path in paths.values())
    assert Directory(tmp_path).prune(total).entries == 0
    assert Directory(tmp_path).prune(0).entries == 2
    assert not list(tmp_path.glob("cpu-*"))


def test_times_in_the_future_do_not_keep_an_entry(tmp_path):
    _, paths = fill(tmp_path, b"skewed", b"normal")
    used_ago(paths[b"skewed"], -1000 * DAY)
    used_ago(paths[b"normal"], 10)
    Directory(tmp_path).prune(10**9)
    assert paths[b"skewed"].stat().st_mtime <= time.time()
    used_ago(paths[b"normal"], -1)  # used after the skewed one, which has aged as any other
    Directory(tmp_path).prune(paths[b"normal"].stat().st_size)
    assert files(tmp_path) == [paths[b"normal"]]


def test_a_directory_all_in_the_future_is_pruned(tmp_path):
    _, paths = fill(tmp_path, b"a", b"b", b"c")
    for age, path in enumerate(paths.values(), start=1):
        used_ago(path, -age * DAY)
    Directory(tmp_path).prune(paths[b"a"].stat().st_size)
    assert files(tmp_path) == [paths[b"c"]]


def test_the_size_limit_is_kept_without_a_walk_per_write(tmp_path, monkeypatch):
    walks = []
    walk = Directory.entries
    monkeypatch.setattr(Directory, "entries", lambda self: walks.append(1) or walk(self))
    limit = 200_000
    cache = cache_at(tmp_path, limit=limit)
    for number in range(1000):
        cache.put(b"%d" % number, bytes(1000), "program")
    assert sum(path.stat().st_size for path in files(tmp_path)) <= limit
    assert len(files(tmp_path)) > 100
    assert len(walks) < 150
    assert cache.get(b"999") is not None


def test_processes_that_write_little_keep_the_limit_too(tmp_path, monkeypatch):
    monkeypatch.setattr(tiers, "_PRUNED_RECENTLY", 0.0)
    for number in range(50):
        cache_at(tmp_path, limit=10_000).put(b"%d" % number, bytes(1000), "program")
    assert len(files(tmp_path)) < 10


def test_a_process_that_starts_leaves_a_directory_just_pruned_alone(tmp_path):
    Directory(tmp_path)._stamp()
    for number in range(20):
        cache_at(tmp_path, limit=10_000).put(b"%d" % number, bytes(1000), "program")
    assert len(files(tmp_path)) == 20
    used_ago(tmp_path / "last-prune", -DAY)  # a clock set back must not stop pruning
    cache_at(tmp_path, limit=10_000).put(b"last", bytes(1000), "program")
    assert len(files(tmp_path)) < 10


def test_a_program_larger_than_the_limit_is_not_stored(tmp_path):
    cache, _ = fill(tmp_path, b"a", limit=10_000)
    cache.put(b"large", bytes(20_000), "large")
    assert cache.get(b"large") is None and cache.get(b"a") is not None


def test_leftovers_of_killed_processes_go_after_a_day(tmp_path):
    _, paths = fill(tmp_path, b"a")
    path = paths[b"a"]
    old, new = (path.with_suffix(f".{digit * 16}.partial") for digit in "01")
    lock = tmp_path / "locks" / f"{path.stem}.lock"
    lock.parent.mkdir()
    for file in (old, new, lock):
        file.write_bytes(b"?")
    used_ago(old, DAY + 60)
    used_ago(lock, DAY + 60)
    used_ago(new, DAY - 60)
    Directory(tmp_path).prune(10**9)
    assert not old.exists() and not lock.exists()
    assert new.exists() and path.exists()
    used_ago(new, -1000 * DAY)  # by a clock that was ahead
    Directory(tmp_path).prune(10**9)
    used_ago(new, time.time() - new.stat().st_mtime + DAY + 60)
    Directory(tmp_path).prune(10**9)
    assert not new.exists()


def test_clearing_removes_what_the_cache_wrote_and_nothing_else(tmp_path):
    cache, _ = fill(tmp_path, b"a", b"b", limit=10**9)
    with cache.compiling(b"c"):
        pass
    foreign = [
        tmp_path / "notes.txt",
        tmp_path / "src" / "main.entry",
        tmp_path / NAMESPACE.name / "README",
    ]
    for file in foreign:
        file.parent.mkdir(exist_ok=True)
        file.write_text("mine")
    assert Directory(tmp_path).clear().entries == 2
    assert sorted(file for file in tmp_path.rglob("*") if file.is_file()) == sorted(foreign)


def test_what_is_made_belongs_to_this_user_alone(tmp_path):
    root = tmp_path / "deep" / "cache"
    cache = cache_at(root)
    with cache.compiling(b"a"):
        cache.put(b"a", b"payload", "a")
        (lock,) = files(root, "locks/*")
        assert stat.S_IMODE(lock.stat().st_mode) == 0o600
    for folder in (root, root / NAMESPACE.name):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(only_file(root).stat().st_mode) == 0o600


def test_entries_are_as_readable_as_their_directory(tmp_path):
    previous = os.umask(0)
    try:
        tmp_path.chmod(0o755)
        cache_at(shared=tmp_path).put(b"a", b"payload", "a")
    finally:
        os.umask(previous)
    assert stat.S_IMODE(only_file(tmp_path).stat().st_mode) == 0o644
    assert stat.S_IMODE((tmp_path / NAMESPACE.name).stat().st_mode) == 0o755


def test_verifying_names_what_is_damaged(tmp_path):
    _, paths = fill(tmp_path, b"a", b"b")
    paths[b"a"].write_bytes(b"foreign")
    found = {stored.path: trouble for stored, trouble in Directory(tmp_path).verify()}
    assert found == {paths[b"a"]: "is not a cache entry", paths[b"b"]: None}


def test_facts_are_those_of_each_namespace(tmp_path):
    cache, _ = fill(tmp_path, b"a", b"b")
    cache.within(OTHER).put(b"a", b"payload", "a")
    assert Directory(tmp_path).facts() == {each.name: each.facts for each in (NAMESPACE, OTHER)}


@pytest.mark.parametrize("shared", [False, True])
def test_a_shared_entry_is_on_its_disk_before_it_has_its_name(tmp_path, monkeypatch, shared):
    calls = []
    for name in ("fsync", "replace"):
        real = getattr(os, name)
        note = lambda *args, name=name, real=real: calls.append(name) or real(*args)  # noqa: E731
        monkeypatch.setattr(os, name, note)
    cache_at(**{"shared" if shared else "disk": tmp_path}).put(b"a", b"payload", "a")
    assert calls == (["fsync", "replace"] if shared else ["replace"])
