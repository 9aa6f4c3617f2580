"""How an entry of a database is checked in each mode: beside the CPU, or beside eager mode."""

from __future__ import annotations

import dataclasses
import itertools
import random
from collections.abc import Callable
from typing import Any

import torch
from databases import Entry
from op_samples import Result, check, check_metadata, check_op, check_values

Check = Callable[[Any], None]


@dataclasses.dataclass(frozen=True)
class Compiled:
    """A case whose runs on the device are compiled."""

    case: Any

    @property
    def is_defined(self) -> bool:
        return self.case.is_defined

    def on(self, device: str, dtypes: Any = None) -> Result:
        result = self.case.on(device, dtypes, None if device == "cpu" else "tpu")
        # What is raised while AOTAutograd captures comes wrapped in an error of Dynamo's.
        result.error = getattr(result.error, "inner_exception", result.error)
        return result

    def draws_random_numbers(self) -> bool:
        return False  # those cases are compared with eager mode on the device instead


def check_compiled(case: Any) -> None:
    """Raise where a case that is compiled differs from the CPU, or draws other numbers."""
    if case.draws_random_numbers():
        return _check_draws(case)
    return check(Compiled(case))


def _check_draws(case: Any) -> None:
    """Compiled or not, the device draws the same numbers from a seed."""
    results = []
    for backend in (None, "tpu"):
        torch.manual_seed(0)
        result = case.on("tpu", None, backend)
        if result.error:
            raise result.error
        results.append(result)
    eager, got = results
    for expected, each in zip(eager.outputs, got.outputs, strict=True):
        check_metadata(expected, each)
    if case.is_defined:
        check_values(eager, got, None)


# What a mode sets for the whole process, and how it checks a case.
MODES: dict[str, tuple[str, Check]] = {
    "strict": ("strict", check),
    "fused": ("fused", check),
    "compiled": ("strict", check_compiled),
}


def check_entry(
    entry: Entry,
    samples: int,
    mode: str = "compiled",
    dtype: torch.dtype = torch.float32,
    form: str = "functional",
) -> int:
    """Check the first cases of an entry; how many there were."""
    eager, check_case = MODES[mode]
    torch.manual_seed(0)
    random.seed(0)
    samples = max(samples, entry.least)
    with torch.tpu.set_eager_mode(eager):
        if entry.op is not None and mode != "compiled":
            return check_op(entry.op, dtype, samples, True, form)
        count = 0
        for case in itertools.islice(entry.cases(dtype, form), samples):
            check_case(case)
            count += 1
    return count


def on_cpu_without_backend(
    entry: Entry, samples: int, dtype: torch.dtype = torch.float32, form: str = "functional"
) -> str | None:
    """How an entry fails on the CPU where Dynamo and AOTAutograd capture it and nothing more."""
    torch.manual_seed(0)
    for case in itertools.islice(entry.cases(dtype, form), samples):
        want, have = case.on("cpu"), case.on("cpu", None, "aot_eager")
        if have.error and not want.error:
            return f"{type(have.error).__name__}: {have.error}"
        try:
            check_values(want, have, None)
        except (AssertionError, ValueError) as error:
            return f"other values: {error}"
    return None
