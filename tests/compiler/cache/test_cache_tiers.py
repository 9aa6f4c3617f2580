"""The interface that the compiler uses: tiers, modes, namespaces, statistics."""

import re

import pytest
from caches import NAMESPACE, OTHER, cache_at, files, only_file, used_ago

from torch_tpu.compiler.cache import Namespace, ProgramCache


@pytest.fixture
def places(tmp_path):
    return tmp_path / "disk", tmp_path / "shared"


def test_a_second_process_finds_what_the_first_one_stored(places):
    first = cache_at(*places)
    assert first.get(b"key") is None
    first.put(b"key", b"payload", "program")
    assert cache_at(*places).get(b"key") == (b"payload", "disk")
    assert all(only_file(place).exists() for place in places)


def test_a_second_host_finds_it_in_the_shared_directory_and_keeps_it(places, tmp_path):
    cache_at(*places).put(b"key", b"payload", "program")
    host = cache_at(tmp_path / "second host", places[1])
    assert host.get(b"key") == (b"payload", "shared")
    assert host.get(b"key") == (b"payload", "disk")
    counts = host.statistics()
    assert (counts["hits"], counts["disk_hits"], counts["shared_hits"]) == (2, 1, 1)


def test_storing_again_replaces(places):
    cache = cache_at(*places)
    for payload in (b"first", b"second"):
        cache.put(b"key", payload, "program")
    assert cache.get(b"key") == (b"second", "disk")


def test_keys_differ_in_any_byte(places):
    cache = cache_at(*places)
    key = bytes(1_000_000)
    cache.put(key, b"payload", "program")
    assert cache.get(key[:-1] + b"\1") is None and cache.get(key[:-1]) is None
    assert cache.get(key) is not None


def test_statistics(places):
    cache = cache_at(*places)
    cache.get(b"key")
    with cache.compiling(b"key"):
        cache.get(b"key")  # not a second miss of the same program
        cache.put(b"key", b"payload", "program")
    cache.get(b"key")
    assert cache.statistics() == {
        "entries": 1,
        "bytes": only_file(places[0]).stat().st_size,
        "hits": 1,
        "disk_hits": 1,
        "shared_hits": 0,
        "misses": 1,
        "writes": 1,
        "rejected": 0,
    }


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("mode", ["ro", "require"])
def test_modes_that_only_read_change_nothing(places, mode):
    cache_at(shared=places[1]).put(b"key", b"payload", "program")
    used_ago(only_file(places[1]), 1000)
    before = only_file(places[1]).stat()
    cache = cache_at(*places, mode=mode)
    assert cache.get(b"key") == (b"payload", "shared")
    with cache.compiling(b"other"):
        cache.put(b"other", b"payload", "program")
    assert cache.get(b"other") is None
    assert not places[0].exists() and only_file(places[1]).stat().st_mtime == before.st_mtime


def test_a_mode_that_only_reads_leaves_damaged_entries_to_others(places):
    cache_at(*places).put(b"key", b"payload", "program")
    for place in places:
        only_file(place).write_bytes(b"foreign")
    with pytest.warns(UserWarning, match="is not a cache entry"):
        assert cache_at(*places, mode="ro").get(b"key") is None
    assert all(only_file(place).exists() for place in places)


def test_off_uses_no_directory():
    cache = ProgramCache("off", (), NAMESPACE)
    with cache.compiling(b"key"):
        cache.put(b"key", b"payload", "program")
    cache.require("program", b"key")
    assert cache.get(b"key") is None and cache.statistics()["entries"] == 0


@pytest.mark.parametrize("mode", ["rw", "ro"])
def test_a_miss_is_no_error_unless_required(places, mode):
    cache_at(*places, mode=mode).require("aten::add.Tensor", b"key")


def require(cache, *parts):
    assert cache.get(b"key") is None
    with pytest.raises(RuntimeError, match=".*".join(map(re.escape, parts))):
        cache.require("aten::add.Tensor", b"key")


def test_a_required_program_is_named_with_the_reason_why_it_is_missing(places):
    disk, shared = places
    start = "TORCH_TPU_CACHE=require, and the compile cache has no program for aten::add.Tensor"
    with pytest.warns(UserWarning, match="No such file"):
        require(cache_at(*places, mode="require"), start, f"{disk} does not exist; {shared} does")
    disk.mkdir(mode=0o700)
    require(cache_at(disk, mode="require"), start, f"{disk} has no entries")
    cache_at(disk).put(b"another", b"payload", "program")
    require(cache_at(disk, mode="require"), "other programs for this target, but not this one")
    require(
        cache_at(disk, mode="require", namespace=OTHER),
        "programs of other versions or targets only",
        "torch 2.13.0 (here 2.13.1)",
    )
    disk.chmod(0o777)
    with pytest.warns(UserWarning, match="can be written"):
        require(cache_at(disk, mode="require"), f"{disk} can't be used: {disk} can be written")
    require(ProgramCache("require", (), NAMESPACE), start, "no directory is in use")


def test_a_required_program_that_does_not_load_is_named_with_the_reason(places):
    cache_at(*places).put(b"key", b"payload", "program")
    cache = cache_at(*places, mode="require")
    with pytest.warns(UserWarning, match="undefined symbol"):
        cache.reject(b"key", "undefined symbol")
    with pytest.raises(RuntimeError, match="aten::add.Tensor .*can't be loaded: undefined symbol"):
        cache.require("aten::add.Tensor", b"key")


def test_namespaces_do_not_see_each_other(places):
    cache = cache_at(*places)
    other = cache.within(OTHER)
    cache.put(b"key", b"payload", "program")
    assert other.get(b"key") is None
    other.put(b"key", b"other payload", "program")
    assert cache.get(b"key") == (b"payload", "disk")
    assert other.get(b"key") == (b"other payload", "disk")
    assert other.statistics() == cache.statistics()


@pytest.mark.filterwarnings("error")
def test_two_versions_of_the_package_share_a_directory(places):
    versions = [
        cache_at(*places, namespace=Namespace(f"cpu-{digit * 32}", {"torch_tpu": version}))
        for digit, version in (("a", "0.1.0"), ("b", "0.2.0"))
    ]
    for version in versions * 2:
        version.put(b"key", version.namespace.facts["torch_tpu"].encode(), "program")
    assert [version.get(b"key")[0] for version in versions] == [b"0.1.0", b"0.2.0"]
    assert len(files(places[0])) == 2


def test_an_entry_moved_to_another_namespace_is_not_loaded(places):
    cache = cache_at(*places)
    for name in (NAMESPACE, OTHER):
        cache.within(name).put(b"key", name.name.encode(), "program")
    mine, theirs = files(places[0])
    theirs.write_bytes(mine.read_bytes())
    with pytest.warns(UserWarning, match="is the entry of another program"):
        assert cache.within(OTHER).get(b"key") == (OTHER.name.encode(), "shared")


def test_a_namespace_comes_first(places):
    with pytest.raises(RuntimeError, match="call set_namespace first"):
        cache_at(*places, namespace=None).get(b"key")
