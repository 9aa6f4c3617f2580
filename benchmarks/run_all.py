"""Everything that is measured, each script in a process of its own."""

import subprocess
import sys
import time
from pathlib import Path

SCRIPTS = ("dispatch", "counters", "training", "inference", "index_checks", "cold_start")


def main() -> None:
    start = time.perf_counter()
    here = Path(__file__).parent
    failed = [
        name
        for name in sys.argv[1:] or SCRIPTS
        if subprocess.run([sys.executable, str(here / f"{name}.py")]).returncode
    ]
    print(f"\n{time.perf_counter() - start:.0f} s; figures are in {here / 'results'}")
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
