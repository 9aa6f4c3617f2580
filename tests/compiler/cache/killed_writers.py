"""Kills 200 writers at random moments and reads what they leave; run by test_cache_faults.py.

A program of its own, without torch in its memory: forking a process that has it takes 20 times
as long.
"""

import os
import random
import signal
import sys
import time
import types
import warnings
from pathlib import Path

for package in ("torch_tpu", "torch_tpu.compiler"):
    # Stands in for the package, whose own code would import torch.
    module = types.ModuleType(package)
    module.__path__ = [str(Path(__file__).parents[3].joinpath(*package.split(".")))]
    sys.modules[package] = module

from caches import cache_at, files, fork, payload_of  # noqa: E402

KEYS = [b"%d" % number for number in range(5)]


def write_forever(root, started):
    cache = cache_at(root)
    os.write(started, b"!")
    while True:
        key = random.choice(KEYS)
        cache.put(key, payload_of(key), "program")


def main(root):
    warnings.simplefilter("error")
    reader = cache_at(root)
    for _ in range(200):
        begun, started = os.pipe()
        child = fork(lambda started=started: write_forever(root, started))
        assert os.read(begun, 1)
        time.sleep(random.uniform(0, 0.003))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(begun)
        os.close(started)
        for key in KEYS:
            assert reader.get(key) in (None, (payload_of(key), "disk"))
    assert len(files(root)) == len(KEYS) and reader.statistics()["rejected"] == 0
    # Some were killed in the middle of a file, or this shows nothing.
    assert files(root, "*/*.partial")
    assert not {"torch", "jax"} & sys.modules.keys()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
