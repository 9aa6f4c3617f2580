"""Runs an example on both devices and compares its losses, step by step.

python examples/compare.py examples/char_gpt.py --steps 20
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

TOLERANCE = 1e-3


def losses(script: Path, options: list[str], device: str) -> list[float]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "losses.json")
        command = [sys.executable, script, *options, "--device", device, "--losses", file]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return json.loads(file.read_text())


def difference(actual: list[float], expected: list[float]) -> float:
    """The largest relative difference of two curves; NaN where either has one."""
    pairs = torch.tensor(list(zip(actual, expected, strict=True)), dtype=torch.float64)
    return (pairs[:, 0] / pairs[:, 1] - 1).abs().max().item()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("script", type=Path)
    parser.add_argument("--steps", type=int, default=20)
    arguments, others = parser.parse_known_args()
    options = [*others, "--steps", str(arguments.steps)]
    curves = {each: losses(arguments.script, options, each) for each in ("cpu", "tpu")}
    print(f"{'step':>4}  {'cpu':>10}  {'tpu':>10}")
    for step, pair in enumerate(zip(*curves.values(), strict=True)):
        print(f"{step:4}  {pair[0]:10.6f}  {pair[1]:10.6f}")
    worst = difference(curves["tpu"], curves["cpu"])
    print(f"largest relative difference: {worst:.1e} (at most {TOLERANCE:.0e})")
    sys.exit(not worst <= TOLERANCE)  # so that NaN fails as well


if __name__ == "__main__":
    main()
