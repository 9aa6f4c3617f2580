"""From a recorded call to an executable. Runs on a miss only."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Iterator
from typing import Any

import jax
import torch
from jax import export

from torch_tpu import _C
from torch_tpu.compiler import foreign, metadata
from torch_tpu.compiler.decomposition import rule_for
from torch_tpu.compiler.lower import Traced, value_dims
from torch_tpu.compiler.node import Created, Node, Plan, Program, overload_of
from torch_tpu.lowering.registry import Rule

_PRECISIONS = {"highest": "highest", "high": "high", "medium": "default"}


def describe(op: str) -> list[bool] | None:
    """Which arguments' numbers are inputs of an op's programs; None for an op without a rule."""
    overload = overload_of(op)
    rule = rule_for(overload)
    if rule is None:
        return None
    return [rule.takes_at_runtime(argument) for argument in overload._schema.arguments]


def compile_node(node: Node, ordinal: int, bound: int | None) -> Plan | None:
    """The plan of a call, with ``bound`` for outputs of at most that length.

    Raises what CPU PyTorch raises for the call. None where only the CPU can run it.
    """
    rule = rule_for(node.overload)
    assert rule is not None
    if metadata.is_known(node.overload):
        inferred = metadata.infer(node)
    else:
        inferred = _promised_by_rule(node, rule)
    traced = Traced(node, rule, inferred, bound)
    asks_for_size = rule.size is not None and bound is None
    if asks_for_size and (plan := _size_plan(traced, ordinal)) is not None:
        return plan
    if bound is not None:
        traced.metadata = _with_unknown_length(traced, bound)
    program = _compile(traced, traced.run, ordinal, traced.donated())
    return Plan(
        program=program,
        created=[_with_value_dims(each, bound) for each in traced.metadata.created],
        writes=traced.writes,
        resizes=inferred.resizes,
        returns=traced.metadata.returns,
        checks=traced.errors,
    )


def _promised_by_rule(node: Node, rule: Rule) -> metadata.Metadata:
    probe = Traced(node, rule, metadata.Metadata([], [], []))
    with _jax_settings():
        return metadata.of_shapes(node, jax.eval_shape(probe.results, *probe.shapes()))


def _size_plan(traced: Traced, ordinal: int) -> Plan | None:
    with _jax_settings():
        shape = jax.eval_shape(traced.size, *traced.shapes())
    if shape is None:
        return None
    program = _compile(traced, lambda *inputs: [traced.size(*inputs)], ordinal, ())
    return Plan(None, [], [], [], [], [], size_program=program)


def _with_unknown_length(traced: Traced, bound: int) -> metadata.Metadata:
    """The promised shapes, with -1 where two bounds give two sizes."""
    shapes = []
    for each in (bound, 2 * bound):
        probe = dataclasses.replace(traced, bound=each)
        with _jax_settings():
            shapes.append(jax.tree.leaves(jax.eval_shape(probe.results, *probe.shapes())))
    created = []
    for promised, small, large in zip(traced.metadata.created, *shapes, strict=True):
        sizes = tuple(a if a == b else -1 for a, b in zip(small.shape, large.shape, strict=True))
        created.append(dataclasses.replace(promised, sizes=sizes))
    return dataclasses.replace(traced.metadata, created=created)


def _with_value_dims(created: Created, bound: int | None) -> Created:
    return dataclasses.replace(created, value_dims=value_dims(created, bound))


@functools.cache
def _platform() -> str:
    return _C.platform_name()


@contextlib.contextmanager
def _jax_settings() -> Iterator[None]:
    """64-bit types and PyTorch's matmul precision, for what is traced inside."""
    precision = _PRECISIONS[torch.get_float32_matmul_precision()]
    with jax.enable_x64(True), jax.default_matmul_precision(precision):
        yield


def _compile(
    traced: Traced, function: Any, ordinal: int, donated: tuple[int, ...]
) -> Program | None:
    def flat(*inputs: Any) -> list[Any]:
        return function(*inputs)

    with _jax_settings():
        jitted = jax.jit(flat, donate_argnums=donated, keep_unused=False)
        exported = export.export(jitted, platforms=[_platform()])(*traced.shapes())
    if not exported.out_avals:
        return None
    _C.count("lowerings", 1)
    module = exported.mlir_module_serialized
    foreign.register_targets(module)
    executable = _C.compile(module, ordinal)
    _C.count("compiles", 1)
    return Program(executable, [traced.inputs[place] for place in exported.module_kept_var_idx])
