"""JAX on its own runtime, in a child process, measured in turn with this process's cases."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import Any


class JaxPeer:
    """A child process that runs a workload of jax_models.py when asked to."""

    def __init__(self, workload: str) -> None:
        self.workload = workload

    def __enter__(self) -> JaxPeer:
        environment = os.environ | {"JAX_PLATFORMS": "cpu", "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
        self.process = subprocess.Popen(
            [sys.executable, __file__, self.workload],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        self.first = self._answer()
        return self

    def __exit__(self, *exception: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()

    def seconds(self, repeats: int = 1) -> float:
        """Of one step, on average."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{repeats}\n")
        self.process.stdin.flush()
        return self._answer()

    def _answer(self) -> float:
        """What the child says next; at first, the seconds that building and compiling took."""
        assert self.process.stdout is not None
        return float(self.process.stdout.readline())


def main() -> None:
    start = time.perf_counter()
    import jax_models

    step = jax_models.WORKLOADS[sys.argv[1]]()
    jax_models.seconds(step, 1)
    print(time.perf_counter() - start, flush=True)
    for line in sys.stdin:
        print(jax_models.seconds(step, int(line)), flush=True)


if __name__ == "__main__":
    main()
