"""Caches in directories of a test, with namespaces made up for it."""

import os
import time
import traceback
import warnings

from torch_tpu.compiler.cache import Namespace, ProgramCache
from torch_tpu.compiler.cache.directory import Directory
from torch_tpu.compiler.cache.tiers import Tier

NAMESPACE = Namespace("cpu-" + "0" * 32, {"platform": "cpu", "torch": "2.13.0"})
OTHER = Namespace("cpu-" + "1" * 32, {"platform": "cpu", "torch": "2.13.1"})


def cache_at(disk=None, shared=None, mode="rw", limit=None, namespace=NAMESPACE):
    """A cache with the tiers whose directories are given."""
    writable = mode == "rw"
    tiers = []
    if disk is not None:
        tiers.append(Tier("disk", Directory(disk), writable, limit))
    if shared is not None:
        tiers.append(Tier("shared", Directory(shared, shared=True), writable))
    return ProgramCache(mode, tuple(tiers), namespace)


def files(root, pattern="*/*.entry"):
    return sorted(root.glob(pattern))


def only_file(root):
    (file,) = files(root)
    return file


def used_ago(path, seconds):
    """Sets when a file was last used; negative is in the future."""
    moment = time.time() - seconds
    os.utime(path, (moment, moment))


def payload_of(key):
    """What the tests that write much store for a key, so that any reader can check it."""
    return key * (200_000 // len(key))


def fork(work, quiet=False):
    """The process id of a child that does ``work()``, then exits; status 1 if that raises."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # JAX, where it is loaded, warns of every fork
        child = os.fork()
    if child:
        return child
    status = 1
    try:
        work()
        status = 0
    except BaseException:
        if not quiet:
            traceback.print_exc()
    finally:
        os._exit(status)


def join(*children):
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * len(children)
