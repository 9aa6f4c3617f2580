"""One program of each rule and dtype, recorded while the databases' samples run on the device."""

from __future__ import annotations

import contextlib
import copy
import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import torch
from compiled_samples import ModuleCase, OptimizerCase
from op_samples import Case, name_of, supported
from torch.testing._internal.common_methods_invocations import (
    foreach_binary_op_db,
    foreach_other_op_db,
    foreach_pointwise_op_db,
    foreach_reduce_op_db,
    foreach_unary_op_db,
    op_db,
)
from torch.testing._internal.common_modules import module_db
from torch.testing._internal.common_optimizers import optim_db

from torch_tpu import compiler
from torch_tpu.compiler.node import overload_of
from torch_tpu.compiler.trace import Trace
from torch_tpu.lowering import registry

FOREACH = [
    *foreach_unary_op_db,
    *foreach_binary_op_db,
    *foreach_pointwise_op_db,
    *foreach_reduce_op_db,
    *foreach_other_op_db,
]
DTYPES = torch.float32, torch.bfloat16, torch.int64

Source = tuple[str, Callable[[], None]]


def sources(dtype: torch.dtype) -> Iterator[Source]:
    """What is run to record programs: a name, and a function that runs it."""
    for op in op_db:
        if supported(op, dtype):
            yield name_of(op), lambda op=op: _run_op(op, dtype)
    for op in FOREACH:
        if dtype in op.dtypes:
            yield name_of(op), lambda op=op: _run_op(op, dtype)
    for overload in registry.rules():
        if isinstance(overload, torch._ops.OpOverload) and not _is_reckless(overload):
            yield str(overload), lambda overload=overload: _run_schema(overload, dtype)
    if dtype != torch.float32:
        return
    yield from CALLS.items()
    for info in module_db:
        if dtype in info.dtypes:
            yield info.name, lambda info=info: _run_module(info)
    for info in optim_db:
        yield info.optim_cls.__name__, lambda info=info: _run_optimizer(info)


def _run_op(op: Any, dtype: torch.dtype) -> None:
    grad = op.supports_autograd and dtype in op.supported_backward_dtypes("cpu")
    samples = op.sample_inputs("cpu", dtype, requires_grad=grad)
    for sample in itertools.islice(samples, 2):
        Case(op, op.get_op(), sample, grad).on("tpu")


def _run_module(info: Any) -> None:
    given = info.module_inputs_func(
        info, device="cpu", dtype=torch.float32, requires_grad=True, training=True
    )
    for each in itertools.islice(given, 2):
        ModuleCase(info, each, True).on("tpu")


def _run_optimizer(info: Any) -> None:
    for given in info.optim_inputs_func(device="cpu"):
        OptimizerCase(info, given).on("tpu")
        if "fused" in info.supported_impls:
            fused = copy.copy(given)
            fused.kwargs = given.kwargs | {"fused": True, "foreach": False}
            OptimizerCase(info, fused).on("tpu")


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
