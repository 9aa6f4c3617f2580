"""Killed writers, damaged files, full and read-only disks: nothing wrong is ever loaded."""

import ctypes
import errno
import os
import random
import resource
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from caches import NAMESPACE, cache_at, files, fork, join, only_file, payload_of

from torch_tpu.compiler.cache import entry as entries
from torch_tpu.compiler.cache import tiers
from torch_tpu.compiler.cache.directory import Directory


def test_writers_killed_200_times_leave_no_entry_that_loads_wrong(tmp_path):
    command = [sys.executable, Path(__file__).with_name("killed_writers.py"), tmp_path]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def truncate(path):
    os.truncate(path, path.stat().st_size // 2)


def flip_a_bit(path):
    content = bytearray(path.read_bytes())
    content[-1] ^= 4
    path.write_bytes(content)


def replace_by_foreign_file(path):
    path.write_text("#!/bin/sh\n")


def empty(path):
    path.write_bytes(b"")


def replace_by_pipe(path):
    path.unlink()
    os.mkfifo(path, 0o600)


def replace_by_link(path):
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


def replace_by_another_programs_entry(path):
    identity = entries.identify(NAMESPACE.name, b"another")
    entry = entries.Entry(identity, entries.Header("another", 0, {}), b"another")
    path.write_bytes(b"".join(entries.pieces(entry)))


DAMAGES = {
    truncate: "is truncated",
    flip_a_bit: "does not match its checksum",
    replace_by_foreign_file: "is not a cache entry",
    empty: "is truncated",
    replace_by_pipe: "is not a regular file",
    replace_by_link: "is a symbolic link",
    replace_by_another_programs_entry: "is the entry of another program",
}


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
@pytest.mark.parametrize("tier", ["disk", "shared"])
def test_a_damaged_entry_is_skipped_reported_and_replaced(tmp_path, tier, damage):
    cache = cache_at(**{tier: tmp_path})
    cache.put(b"key", b"payload", "program")
    damage(only_file(tmp_path))
    with pytest.warns(UserWarning, match=f"{only_file(tmp_path)} is skipped: it {DAMAGES[damage]}"):
        assert cache.get(b"key") is None
    assert cache.statistics()["rejected"] == 1
    cache.put(b"key", b"payload", "program")
    assert cache.get(b"key") == (b"payload", tier)


def test_many_damaged_entries_are_one_warning(tmp_path):
    cache = cache_at(tmp_path)
    keys = [b"%d" % number for number in range(10)]
    for key in keys:
        cache.put(key, b"payload", "program")
    for path in files(tmp_path):
        truncate(path)
    with pytest.warns(UserWarning, match="this is said once") as caught:
        assert all(cache.get(key) is None for key in keys)
    assert len(caught) == 1 and cache.statistics()["rejected"] == 10


def test_a_damaged_entry_on_disk_is_repaired_from_the_shared_directory(tmp_path):
    disk, shared = tmp_path / "disk", tmp_path / "shared"
    cache = cache_at(disk, shared)
    cache.put(b"key", b"payload", "program")
    flip_a_bit(only_file(disk))
    with pytest.warns(UserWarning, match="checksum"):
        assert cache.get(b"key") == (b"payload", "shared")
    assert cache.get(b"key") == (b"payload", "disk")


def test_a_payload_that_does_not_load_is_reported_and_removed(tmp_path):
    cache = cache_at(tmp_path / "disk", tmp_path / "shared")
    cache.put(b"key", b"payload", "program")
    with pytest.warns(UserWarning, match="is skipped: undefined symbol") as caught:
        cache.reject(b"key", "undefined symbol")
    assert len(caught) == 2  # one per directory
    assert cache.get(b"key") is None and cache.statistics()["rejected"] == 2


def degrades(cache, match):
    """Checks that storing fails with one warning, and that everything goes on."""
    with pytest.warns(UserWarning, match=match) as caught:
        for number in range(5):
            key = b"%d" % number
            assert cache.get(key) is None
            with cache.compiling(key):
                assert cache.get(key) is None
                cache.put(key, payload_of(b"key"), "program")
    assert len(caught) == 1, [str(each.message) for each in caught]
    assert cache.statistics()["writes"] == 0


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
def test_a_full_disk_is_one_warning(tmp_path, monkeypatch, error):
    def fill_part(self, path, content):
        path.write_bytes(content[0])
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr(Directory, "_fill", fill_part)
    monkeypatch.setattr(tiers, "_PAUSE_AFTER_FAILURE", 0.0)
    degrades(cache_at(tmp_path), os.strerror(error))
    assert not files(tmp_path, "*/*")


def test_writing_resumes_once_there_is_room_again(tmp_path, monkeypatch):
    cache = cache_at(tmp_path)
    with monkeypatch.context() as patch, pytest.warns(UserWarning, match="No space"):
        full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        patch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(full))
        cache.put(b"key", b"payload", "program")
    cache.put(b"key", b"payload", "program")
    assert cache.get(b"key") is None  # it pauses first
    monkeypatch.setattr(cache.tiers[0], "_write_again", 0.0)
    cache.put(b"key", b"payload", "program")
    assert cache.get(b"key") is not None


def test_a_limit_on_file_sizes_is_one_warning(tmp_path):
    def work():
        resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
        degrades(cache_at(tmp_path), "File too large")
        assert not files(tmp_path, "*/*")

    join(fork(work))


def mount(root, options):
    """Mounts a memory disk for this process alone; OSError where users may not."""
    libc = ctypes.CDLL(None, use_errno=True)
    user, group = os.getuid(), os.getgid()
    new_user, new_mounts, private = 0x10000000, 0x20000, 0x44000
    calls = [
        lambda: libc.unshare(new_user | new_mounts),
        lambda: Path("/proc/self/setgroups").write_text("deny") and 0,
        lambda: Path("/proc/self/uid_map").write_text(f"{user} {user} 1") and 0,
        lambda: Path("/proc/self/gid_map").write_text(f"{group} {group} 1") and 0,
        lambda: libc.mount(None, b"/", None, private, None),
        lambda: libc.mount(b"tmpfs", bytes(root), b"tmpfs", 0, options.encode()),
    ]
    for call in calls:
        if call():
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


@pytest.mark.parametrize(
    ("options", "message"),
    [("size=64k,mode=700", "No space left"), ("ro,mode=700", "Read-only file system")],
)
def test_file_systems_that_are_full_or_read_only(tmp_path, options, message):
    if os.waitpid(fork(lambda: mount(tmp_path, options), quiet=True), 0)[1]:
        pytest.skip("this machine does not let its users mount a file system")

    def work():
        mount(tmp_path, options)
        degrades(cache_at(tmp_path / "cache"), message)
        assert not files(tmp_path, "*/*/*.entry") and not files(tmp_path, "*/*/*.partial")

    join(fork(work))


@pytest.mark.parametrize("error", [errno.EROFS, errno.EACCES])
@pytest.mark.parametrize("tier", ["disk", "shared"])
def test_a_read_only_directory_is_read_and_one_warning(tmp_path, monkeypatch, tier, error):
    cache_at(**{tier: tmp_path}).put(b"baked", b"payload", "program")
    real = os.open

    def refuse_to_write(path, flags, *rest, **options):
        if flags & (os.O_CREAT | os.O_WRONLY | os.O_RDWR):
            raise OSError(error, os.strerror(error), str(path))
        return real(path, flags, *rest, **options)

    def refuse(path, *_, **__):
        raise OSError(error, os.strerror(error), str(path))

    monkeypatch.setattr(os, "open", refuse_to_write)
    for name in ("mkdir", "utime", "unlink", "replace"):
        monkeypatch.setattr(os, name, refuse)
    monkeypatch.setattr(tiers, "_PAUSE_AFTER_FAILURE", 0.0)
    cache = cache_at(**{tier: tmp_path})
    degrades(cache, os.strerror(error))
    assert cache.get(b"baked") == (b"payload", tier)


@pytest.mark.parametrize("tier", ["disk", "shared"])
def test_a_place_where_no_directory_can_be_is_one_warning(tmp_path, tier):
    (tmp_path / "file").write_text("not a directory")
    degrades(cache_at(**{tier: tmp_path / "file" / "cache"}), "Not a directory")


def test_a_shared_directory_that_is_not_mounted_is_one_warning(tmp_path):
    degrades(cache_at(shared=tmp_path / "mount" / "cache"), "No such file or directory")
    assert not (tmp_path / "mount").exists()
    with pytest.warns(UserWarning, match="No such file or directory") as caught:
        cache = cache_at(shared=tmp_path / "mount" / "cache", mode="ro")
        assert [cache.get(b"key") for _ in range(3)] == [None] * 3
    assert len(caught) == 1


def test_a_file_that_can_not_be_read_is_a_miss_and_one_warning(tmp_path, monkeypatch):
    cache = cache_at(tmp_path)
    cache.put(b"key", b"payload", "program")

    def fail(*_):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(entries, "read", fail)
    with pytest.warns(UserWarning, match="Input/output error") as caught:
        assert [cache.get(b"key") for _ in range(3)] == [None] * 3
    assert len(caught) == 1 and only_file(tmp_path).exists()


@pytest.mark.filterwarnings("error")
def test_eight_processes_that_read_write_and_prune_one_directory(tmp_path):
    keys = [b"%d" % number for number in range(10)]

    def work():
        warnings.simplefilter("error")
        cache = cache_at(tmp_path, limit=10**9)
        for turn in range(40):
            key = random.choice(keys)
            assert cache.get(key) in (None, (payload_of(key), "disk"))
            cache.put(key, payload_of(key), "program")
            if turn % 10 == 9:
                Directory(tmp_path).prune(random.choice((0, 5 * 200_000)))

    join(*(fork(work) for _ in range(8)))
    assert all(trouble is None for _, trouble in Directory(tmp_path).verify())
    assert not files(tmp_path, "*/*.partial")
