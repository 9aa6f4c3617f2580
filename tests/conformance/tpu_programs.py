"""One program of each rule and dtype, recorded while the databases' samples run on the device."""

from __future__ import annotations

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
    if dtype != torch.float32:
        return
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
