"""Breaks lowerings on purpose, one at a time, and shows that the tests notice.

    python tests/mutation/mutations.py [--names REGEX] [--page docs/mutations.md]

Each mutation is made in a copy of the repository, whose tests of that rule (files of `make test`)
must then fail. The exit status tells of mutations that survive.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
COPY = ROOT / "build/mutation"
COPIED = "torch_tpu", "tests", "benchmarks", "examples"


@dataclasses.dataclass(frozen=True)
class Mutation:
    """A change of one line of a lowering, and the tests that have to notice."""

    name: str
    file: str
    before: str
    after: str
    tests: str


MUTATIONS = [
    Mutation(
        "add loses alpha",
        "pointwise.py",
        "jnp.asarray(alpha).astype(other.dtype) * other",
        "other",
        "test_pointwise",
    ),
    Mutation(
        "addmm ignores beta",
        "matmul.py",
        "beta * self.astype(addend.dtype))",
        "self.astype(addend.dtype))",
        "test_matmul",
    ),
    Mutation(
        "layer norm has another epsilon",
        "normalization.py",
        "rstd = lax.rsqrt(variance + eps)",
        "rstd = lax.rsqrt(variance + 1e-3)",
        "test_normalization",
    ),
    Mutation(
        "batch norm weighs its statistics the other way round",
        "batch_normalization.py",
        "(1 - momentum) * running + momentum * statistic",
        "momentum * running + (1 - momentum) * statistic",
        "test_normalization",
    ),
    Mutation(
        "softmax goes along the first dim",
        "softmax.py",
        "_normalised_exponentials(_vectors(self), dim).reshape(self.shape)",
        "_normalised_exponentials(_vectors(self), 0).reshape(self.shape)",
        "test_softmax",
    ),
    Mutation(
        "index_put overwrites where it should add",
        "indexing.py",
        'reduce = "sum" if accumulate else None',
        "reduce = None",
        "test_indexing",
    ),
    Mutation(
        "var divides by all elements",
        "statistics.py",
        "elements - lax.convert_element_type(correction, elements.dtype)",
        "elements + 0 * lax.convert_element_type(correction, elements.dtype)",
        "test_reductions",
    ),
    Mutation(
        "nll_loss counts ignored targets",
        "losses.py",
        "counts = (target != ignore_index) & sizes.inside(target)",
        "counts = (target != ignore_index - 1) & sizes.inside(target)",
        "test_losses",
    ),
    Mutation(
        "average pooling counts its padding",
        "pooling.py",
        "if not count_include_pad:",
        "if False:",
        "test_pooling",
    ),
    Mutation(
        "AdamW adds its decay to the gradient",
        "optimizers.py",
        "if decoupled_weight_decay:",
        "if not decoupled_weight_decay:",
        "test_optimizers",
    ),
    Mutation(
        "gelu is always exact",
        "activations.py",
        'approximate=approximate == "tanh"',
        "approximate=False",
        "test_activations",
    ),
    Mutation(
        "cumsum runs along the next dim",
        "scans.py",
        "return _along(lax.cumsum, _terms(self, dtype), dim)",
        "return _along(lax.cumsum, _terms(self, dtype), (dim + 1) % max(self.ndim, 1))",
        "test_scans",
    ),
]


def copy_of_repository() -> None:
    """A copy that shares nothing with the original but the virtual environment."""
    shutil.rmtree(COPY, ignore_errors=True)
    for folder in COPIED:
        shutil.copytree(
            ROOT / folder, COPY / folder, ignore=shutil.ignore_patterns("__pycache__", "mutation")
        )
    shutil.copy(ROOT / "pyproject.toml", COPY)


def outcome(mutation: Mutation) -> str:
    """The first test that fails because of a mutation, "" if none does."""
    path = COPY / "torch_tpu/lowering" / mutation.file
    text = path.read_text()
    if mutation.before not in text:
        raise ValueError(f"{mutation.name}: {mutation.file} has no {mutation.before!r} any more")
    path.write_text(text.replace(mutation.before, mutation.after, 1))
    try:
        failed = first_failure(f"tests/lowering/{mutation.tests}.py")
    finally:
        path.write_text(text)
    if failed and (again := first_failure(failed)):
        raise RuntimeError(f"{again} fails without a mutation, too")
    return failed


def first_failure(tests: str) -> str:
    """The first test that fails, "" if none does."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-xq", "-m", "not slow", "-p", "no:cacheprovider", tests],
        cwd=COPY,
        env=os.environ | {"PYTHONPATH": str(COPY)},
        capture_output=True,
        text=True,
    )
    if done.returncode not in (0, 1):
        raise RuntimeError(f"pytest did not run {tests}\n{done.stdout}{done.stderr}")
    failed = re.search(r"^FAILED (\S+)", done.stdout, re.MULTILINE)
    return failed[1] if failed else ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--names", default=".*")
    parser.add_argument("--page", type=Path)
    options = parser.parse_args()
    copy_of_repository()
    lines = ["| mutation | in | noticed by |", "| --- | --- | --- |"]
    survivors = []
    for mutation in MUTATIONS:
        if not re.fullmatch(options.names, mutation.name):
            continue
        began = time.time()
        failed = outcome(mutation)
        print(f"{mutation.name}: {failed or 'SURVIVES'} ({time.time() - began:.0f} s)", flush=True)
        lines.append(f"| {mutation.name} | `{mutation.file}` | `{failed or 'nothing'}` |")
        survivors += [] if failed else [mutation.name]
    if options.page:
        options.page.write_text(PAGE.format(table="\n".join(lines)))
    return 1 if survivors else 0


PAGE = """# Do the tests notice?

`make mutations` breaks one lowering at a time in a copy of the repository and runs the tests \
that `make test` has of it. Each has to fail.

{table}
"""


if __name__ == "__main__":
    sys.exit(main())
