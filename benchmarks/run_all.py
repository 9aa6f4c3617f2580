"""Everything that is measured, each script in a process and with a compile cache of its own."""

import subprocess
import sys
import time
from pathlib import Path

import measure

SCRIPTS = (
    "dispatch",
    "counters",
    "training",
    "inference",
    "index_checks",
    "cold_start",
    "fused",
    "warm_start",
    "compiled",
)


def fails(script: Path) -> bool:
    with measure.fresh_cache():
        return subprocess.run([sys.executable, str(script)]).returncode != 0


def main() -> None:
    start = time.perf_counter()
    here = Path(__file__).parent
    failed = [name for name in sys.argv[1:] or SCRIPTS if fails(here / f"{name}.py")]
    print(f"\n{time.perf_counter() - start:.0f} s; figures are in {measure.RESULTS}")
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
