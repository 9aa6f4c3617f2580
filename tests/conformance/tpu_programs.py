"""One program of each rule and dtype, recorded while the databases' samples run on the device."""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import torch
from databases import DATABASES, Entry

from torch_tpu import compiler
from torch_tpu.compiler.node import overload_of
from torch_tpu.compiler.trace import Trace
from torch_tpu.lowering import registry

# What is run of each database: of modules and optimizers in float32 alone.
FORMS = {
    "ops": ("functional",),
    "foreach": ("functional",),
    "modules": ("forward",),
    "optimizers": ("for-loop", "foreach", "fused"),
}
SAMPLES = 2
DTYPES = torch.float32, torch.bfloat16, torch.int64

Source = tuple[str, Callable[[], None]]


def sources(dtype: torch.dtype) -> Iterator[Source]:
    """What is run to record programs: a name, and a function that runs it."""
    for database, forms in FORMS.items():
        has_ops = database in ("ops", "foreach")
        for entry in DATABASES[database].entries():
            if dtype in entry.dtypes and (has_ops or dtype == torch.float32):
                yield entry.name, lambda entry=entry, forms=forms: _run_cases(entry, dtype, forms)
    for overload in registry.rules():
        if not _is_reckless(overload):
            yield str(overload), lambda overload=overload: _run_schema(overload, dtype)
    if dtype == torch.float32:
        yield from CALLS.items()


def _run_cases(entry: Entry, dtype: torch.dtype, forms: tuple[str, ...]) -> None:
    for form in forms:
        for case in itertools.islice(entry.cases(dtype, form), max(SAMPLES, entry.least)):
            case.on("tpu")


def _is_reckless(overload: Any) -> bool:
    """Whether calling an op with whatever its schema allows is out of the question.

    CPU PyTorch, which is asked what an op returns, dies of sizes and settings that don't fit; of
    tensors and numbers alone it does not, nor where a view is copied or a tensor made.
    """
    wanted = [each for each in overload._schema.arguments if not each.has_default_value()]
    plain = all(str(each.type) in ("Tensor", "number") for each in wanted)
    makes = any(each.name == "device" for each in overload._schema.arguments)
    copies = overload._schema.name.endswith("_copy")
    batches = "batch_norm" in str(overload)
    return batches or bool(registry.mutated(overload)) or not (plain or makes or copies)


def _run_schema(overload: Any, dtype: torch.dtype) -> None:
    """Call an overload, which the databases may not reach, with what its schema asks for."""
    square = torch.ones(4, 4, dtype=dtype, device="tpu")
    values = {
        "Tensor": square,
        "number": 2,
        "int": 0,
        "List[int]": [0],
    }
    sizes = {"size": [4, 4], "n": 4, "m": 4, "window_length": 4, "high": 9, "end": 9, "steps": 4}
    positional, named = [], {}
    for argument in overload._schema.arguments:
        value = sizes.get(argument.name, values.get(str(argument.type)))
        if argument.name == "device":
            named["device"] = "tpu"
        elif not argument.has_default_value() and argument.kwarg_only:
            named[argument.name] = value
        elif not argument.has_default_value():
            positional.append(value)
    with contextlib.suppress(Exception):  # many want other arguments; they are the databases'
        overload(*positional, **named)


def _ones(*size: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    return torch.ones(*size, dtype=dtype, device="tpu")


def _float8(*size: int) -> torch.Tensor:
    return _ones(*size).to(torch.float8_e4m3fn)


def _int8(*size: int) -> torch.Tensor:
    return _ones(*size, dtype=torch.int8)


aten = torch.ops.aten
_SCALE = functools.partial(_ones, 1, dtype=torch.float32)
# Ops that no database has.
CALLS: dict[str, Callable[[], Any]] = {
    "scaled_mm": lambda: aten._scaled_mm(
        _float8(16, 32), _float8(16, 32).t(), _SCALE(), _SCALE(), out_dtype=torch.bfloat16
    ),
    "int_mm": lambda: aten._int_mm(_int8(32, 16), _int8(16, 32)),
    "int8pack_mm": lambda: aten._weight_int8pack_mm(_ones(4, 32), _int8(16, 32), _ones(16)),
    "grouped_mm": lambda: aten._grouped_mm(
        _ones(8, 16), _ones(2, 16, 32), torch.tensor([3, 8], dtype=torch.int32, device="tpu")
    ),
    "nearest": lambda: [
        torch.nn.functional.interpolate(_ones(1, 2, *size), scale_factor=2, mode=mode)
        for size in ((4, 4), (4, 4, 4))
        for mode in ("nearest", "nearest-exact")
    ],
    "unscale": lambda: aten._amp_foreach_non_finite_check_and_unscale_(
        [_SCALE()], _SCALE(), _SCALE()
    ),
}


def programs_of(run: Callable[[], None]) -> list[Trace]:
    """The programs of one op that a function's run asks for the first time in this process."""
    traces: list[Trace] = []

    def program(trace: Trace) -> Any:
        traces.append(trace)
        return original(trace)

    original = compiler.program
    with mock.patch.object(compiler, "program", program), torch.tpu.set_eager_mode("strict"):
        torch.manual_seed(0)
        run()
        torch.tpu.synchronize()
    return traces


def rule_of(trace: Trace) -> str:
    """The op whose rule a program is: the functional form of the op that was called."""
    overload = overload_of(trace.steps[0].plan.node.op)
    if overload not in registry.rules():
        overload = registry.functional_form(overload) or overload
    return f"length of {overload}" if trace.asks_size else str(overload)
