"""One process of a host compiles a program; the lock never costs more than it saves."""

import errno
import fcntl
import os
import random
import signal
import threading
import time

import pytest
from caches import cache_at, files, fork, join, payload_of

from torch_tpu.compiler.cache import locks


def test_eight_processes_compile_each_program_once(tmp_path):
    log = os.open(tmp_path / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    keys = [b"%d" % number for number in range(8)]

    def work():
        cache = cache_at(tmp_path / "cache")
        for key in random.sample(keys, len(keys)):
            found = cache.get(key)
            if found is None:
                with cache.compiling(key):
                    found = cache.get(key)
                    if found is None:
                        os.write(log, key + b"\n")
                        time.sleep(0.02)
                        cache.put(key, payload_of(key), "program")
            assert found in (None, (payload_of(key), "disk"))

    join(*(fork(work) for _ in range(8)))
    assert sorted((tmp_path / "log").read_bytes().split()) == keys
    assert not files(tmp_path / "cache", "locks/*.lock")


def test_threads_wait_for_each_other_too(tmp_path):
    inside, most = [], []

    def work():
        with locks.holding(tmp_path / "lock") as held:
            inside.append(held)
            most.append(len(inside))
            time.sleep(0.01)
            inside.pop()

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1] * 8


def hold_forever(path, ready):
    with locks.holding(path):
        os.write(ready, b"!")
        time.sleep(60)


@pytest.fixture
def holder(tmp_path):
    """Another process that holds the lock."""
    begun, ready = os.pipe()
    child = fork(lambda: hold_forever(tmp_path / "lock", ready))
    assert os.read(begun, 1)
    yield child
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(begun)
    os.close(ready)


def test_waiting_ends(tmp_path, holder):
    start = time.monotonic()
    with locks.holding(tmp_path / "lock", longest_wait=0.1) as held:
        assert not held
    assert 0.1 <= time.monotonic() - start < 1
    assert (tmp_path / "lock").exists()  # it is the holder's


def test_a_crashed_holder_frees_its_lock(tmp_path, holder):
    threading.Timer(0.05, os.kill, (holder, signal.SIGKILL)).start()
    with locks.holding(tmp_path / "lock", longest_wait=10) as held:
        assert held


def test_a_child_forked_by_the_holder_does_not_keep_the_lock(tmp_path):
    with locks.holding(tmp_path / "lock"):
        child = fork(lambda: time.sleep(60))
    try:
        with locks.holding(tmp_path / "lock", longest_wait=0) as held:
            assert held
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_a_lock_on_a_file_that_its_last_holder_removed_does_not_count(tmp_path, monkeypatch):
    real, calls = fcntl.flock, []

    def flock(descriptor, operation):
        real(descriptor, operation)
        calls.append(descriptor)
        if len(calls) == 1:
            (tmp_path / "lock").unlink()

    monkeypatch.setattr(fcntl, "flock", flock)
    with locks.holding(tmp_path / "lock") as held:
        assert held and len(calls) == 2 and (tmp_path / "lock").exists()


@pytest.mark.parametrize("error", [errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS])
def test_a_file_system_without_locks_means_no_lock(tmp_path, monkeypatch, error):
    def fail(*_):
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr(fcntl, "flock", fail)
    cache = cache_at(tmp_path)
    with cache.compiling(b"key"), cache.compiling(b"key"):
        cache.put(b"key", b"payload", "program")
    assert cache.get(b"key") == (b"payload", "disk")


def test_a_folder_that_is_missing_means_no_lock(tmp_path):
    with locks.holding(tmp_path / "missing" / "lock") as held:
        assert not held


def test_an_error_inside_frees_the_lock(tmp_path):
    cache = cache_at(tmp_path)
    with pytest.raises(ZeroDivisionError), cache.compiling(b"key"):
        raise ZeroDivisionError
    assert not files(tmp_path, "locks/*.lock")


def test_hosts_do_not_lock_each_other_out(tmp_path):
    first, second = (cache_at(tmp_path / host, tmp_path / "shared") for host in ("a", "b"))
    with first.compiling(b"key"), second.compiling(b"key"):
        pass
    assert not (tmp_path / "shared").exists()
