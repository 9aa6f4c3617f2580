"""Answers that need JAX: which rule serves an op, what a call does, and programs from traces."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import export, lax
from jax._src import xla_bridge
from jax.extend.core import jaxpr_as_fun

from torch_tpu import _C
from torch_tpu.compiler import foreign, hlo, metadata
from torch_tpu.compiler.decomposition import rule_for
from torch_tpu.compiler.lower import Traced, value_dims
from torch_tpu.compiler.node import Created, Node, Plan, Program, overload_of
from torch_tpu.compiler.overlaps import reads_what_it_writes
from torch_tpu.compiler.target import Device, Flags, Target, client_platform
from torch_tpu.compiler.trace import UNFILLED, Step, Trace
from torch_tpu.lowering import dtypes
from torch_tpu.lowering.checks import first_failure
from torch_tpu.lowering.platforms import lowering_for
from torch_tpu.lowering.registry import Rule
from torch_tpu.lowering.views import writes_in_place, writing_by_select
from torch_tpu.precision import matmul_precision

_PRECISIONS = {"highest": "highest", "high": "high", "medium": "default"}

Array = Any


def describe(op: str) -> list[bool] | None:
    """Which arguments' numbers are inputs of an op's programs; None for an op without a rule."""
    overload = overload_of(op)
    rule = rule_for(overload)
    if rule is None:
        return None
    return [rule.takes_at_runtime(argument) for argument in overload._schema.arguments]


def plan(node: Node, bound: int | None) -> Plan:
    """What a call does; its rule is traced, nothing is compiled."""
    rule = _rule_of(node)
    precision = matmul_precision()
    with jax_settings(precision):
        if metadata.is_known(node.overload):
            inferred = metadata.infer(node)
        else:
            inferred = _promised_by_rule(node, rule, bound)
        traced = Traced(node, rule, inferred, bound)
        if rule.size is not None and bound is None and _decided_by_values(traced):
            return Plan(node, inferred, bound, precision, [], [], [], [], [], asks_size=True)
        if bound is not None:
            traced.metadata = _with_unknown_length(traced, bound)
        function = _traced_function(traced, traced.run)
    return Plan(
        node=node,
        metadata=traced.metadata,
        bound=bound,
        precision=precision,
        created=[_with_value_dims(each, bound) for each in traced.metadata.created],
        writes=traced.writes,
        resizes=inferred.resizes,
        returns=traced.metadata.returns,
        checks=traced.errors,
        function=function,
    )


def compile_trace(trace: Trace, target: Target | None = None) -> Program:
    """Lower a trace to StableHLO and compile it, for the device of its ordinal if not told else."""
    target = target or Device(trace.ordinal)
    slots = trace.inputs()
    shapes = [jax.ShapeDtypeStruct(slot.dims, dtypes.to_jax(slot.dtype)) for slot in slots]
    counts = [_number_counts(step) for step in trace.steps]
    return compile_function(
        lambda inputs: _run(trace, inputs, target.platform),
        shapes,
        numbers=(sum(ints for ints, _ in counts), sum(floats for _, floats in counts)),
        donated=trace.reusable(),
        precision=trace.steps[0].plan.precision,
        target=target,
    )


_UPDATE = b"dynamic_update_slice"  # as StableHLO's bytecode names it


def compile_function(
    function: Callable[[dict[int | str, Array]], list[Array]],
    shapes: list[jax.ShapeDtypeStruct],
    *,
    numbers: tuple[int, int],
    donated: list[int],
    precision: str,
    target: Target,
    flags: Flags = (),
    show: Callable[[str, str], None] | None = None,
) -> Program:
    """Lower a function of JAX arrays to StableHLO and compile it for a target.

    The function gets its inputs by number and, where there are any, ``numbers`` integers and
    floats as the arrays "ints" (int64) and "floats" (float64). ``flags`` are XLA's, ``show`` is
    told the StableHLO and the optimised HLO by name.
    """
    named = number_shapes(numbers)
    sources: list[int | str] = [*range(len(shapes)), *named]

    def run(*arrays: Array) -> list[Array]:
        return function(dict(zip(sources, arrays, strict=True)))

    def lowered(run: Callable[..., list[Array]]) -> tuple[Any, export.Exported]:
        jitted = jax.jit(run, donate_argnums=tuple(donated), keep_unused=False)
        arguments = *shapes, *named.values()
        return jitted, export.export(jitted, platforms=[target.platform])(*arguments)

    with jax_settings(precision, [target.platform]):
        jitted, exported = lowered(run)
        may_overlap = target.platform == "cpu" and _UPDATE in exported.mlir_module_serialized
        if may_overlap and reads_what_it_writes(jitted.trace(*shapes, *named.values()).jaxpr):
            with writing_by_select():
                _, exported = lowered(lambda *arrays: run(*arrays))
    _C.count("lowerings", 1)
    module = exported.mlir_module_serialized
    if show is not None:
        show("stablehlo", str(exported.mlir_module()))
    targets = foreign.register_targets(module, target.platform)
    executable = target.compile(module, flags)
    _C.count("compiles", 1)
    if show is not None:
        show("hlo", hlo.text(executable.optimized_program()))
    parameters = [sources[place] for place in exported.module_kept_var_idx]
    return Program(executable, parameters, targets)


def number_shapes(counts: tuple[int, int]) -> dict[str, jax.ShapeDtypeStruct]:
    """The shapes of a program's integers and floats, those that it has."""
    kinds = zip(("ints", "floats"), counts, (jnp.int64, jnp.float64), strict=True)
    return {name: jax.ShapeDtypeStruct((count,), dtype) for name, count, dtype in kinds if count}


def _run(trace: Trace, inputs: dict[int | str, Array], platform: str) -> list[Array]:
    """The live outputs of a trace, and the code of its checks if it has any."""
    outputs: list[Array] = []
    codes: list[tuple[Array, int]] = []
    first_int = first_float = 0
    calls = _functions(trace, platform)
    kept = _KeptChains(trace)
    for step in trace.steps:
        ints, floats = _number_counts(step)
        arguments = [
            outputs[edge // 2] if edge % 2 else inputs[edge // 2]
            for edge in step.edges
            if edge != UNFILLED
        ]
        if ints:
            arguments.append(inputs["ints"][first_int : first_int + ints])
        if floats:
            arguments.append(inputs["floats"][first_float : first_float + floats])
        first_int, first_float = first_int + ints, first_float + floats
        results = calls[step.plan.key](*arguments)
        if trace.asks_size:
            return results
        if step.plan.checks:
            codes.append((results[-1], len(step.plan.checks)))
        made = results[: len(step.plan.created) + len(step.plan.writes)]
        outputs += kept.bounded(step, made, len(outputs))
    live = [outputs[place] for place in trace.live]
    return live + ([first_failure(codes)] if codes else [])


class _KeptChains:
    """Keeps XLA's fusion from computing a long chain again for each of its outputs that is kept.

    Every few kept outputs that feed one another, what follows reads the kept array.
    """

    LONGEST = 8

    def __init__(self, trace: Trace) -> None:
        self.live = set(trace.live)
        self.lengths: list[int] = []

    def bounded(self, step: Step, made: list[Array], first: int) -> list[Array]:
        """A step's outputs, the first of which has the place ``first``."""
        sources = [self.lengths[edge // 2] for edge in step.edges if edge >= 0 and edge % 2]
        length = max(sources, default=0)
        bounded = []
        for place, output in enumerate(made, first):
            own = length + (place in self.live)
            cut = own > self.LONGEST
            bounded.append(lax.optimization_barrier(output) if cut else output)
            self.lengths.append(0 if cut else own)
        return bounded


def _functions(trace: Trace, platform: str) -> dict[bytes, Callable[..., list[Array]]]:
    """The function of each call by key; one that comes again is traced and lowered once."""
    times = collections.Counter(step.plan.key for step in trace.steps)
    plans = {step.plan.key: step.plan for step in trace.steps}
    functions = {key: _function(each, trace.asks_size, platform) for key, each in plans.items()}
    return {key: jax.jit(each) if times[key] > 1 else each for key, each in functions.items()}


def _function(made: Plan, asks_size: bool, platform: str) -> Callable[..., list[Array]]:
    """What a plan computes; for the client's platform it is traced once, as a rule."""
    own = platform == client_platform() and writes_in_place()
    if own and made.function is not None:
        return made.function
    traced = Traced(made.node, _rule_of(made.node), made.metadata, made.bound)
    body = (lambda *inputs: [traced.size(*inputs)]) if asks_size else traced.run
    with jax_settings(made.precision, [platform]):
        function = _traced_function(traced, body)
    if own:
        made.function = function
    return function


def _traced_function(traced: Traced, body: Callable[..., Any]) -> Callable[..., list[Array]]:
    """A rule's body as a function that replays what tracing it once recorded."""

    def flat(*inputs: Array) -> list[Array]:
        return list(body(*inputs))

    return jaxpr_as_fun(jax.make_jaxpr(flat)(*traced.shapes()))


def _number_counts(step: Step) -> tuple[int, int]:
    node = step.plan.node
    return node.ints + 2 * node.is_random, node.floats


def _rule_of(node: Node) -> Rule:
    rule = rule_for(node.overload)
    assert rule is not None
    return rule


def _promised_by_rule(node: Node, rule: Rule, bound: int | None) -> metadata.Metadata:
    probe = Traced(node, rule, metadata.Metadata([], [], []), bound)
    if rule.size is not None and bound is None and _decided_by_values(probe):
        probe.bound = 1  # any, until the length is known
    results = jax.eval_shape(probe.results, *probe.shapes())
    return metadata.of_shapes(node, results[: len(results) - len(rule.writes)])


def _decided_by_values(traced: Traced) -> bool:
    return jax.eval_shape(traced.size, *traced.shapes()) is not None


def _with_unknown_length(traced: Traced, bound: int) -> metadata.Metadata:
    """The promised shapes, with -1 where two bounds give two sizes."""
    shapes = []
    for each in (bound, 2 * bound):
        probe = dataclasses.replace(traced, bound=each)
        shapes.append(jax.tree.leaves(jax.eval_shape(probe.results, *probe.shapes())))
    created = []
    for promised, small, large in zip(traced.metadata.created, *shapes, strict=True):
        sizes = tuple(a if a == b else -1 for a, b in zip(small.shape, large.shape, strict=True))
        created.append(dataclasses.replace(promised, sizes=sizes))
    return dataclasses.replace(traced.metadata, created=created)


def _with_value_dims(created: Created, bound: int | None) -> Created:
    return dataclasses.replace(created, value_dims=value_dims(created, bound))


_settling = threading.Lock()  # programs are made on several threads


def _keep_jax_on_the_host() -> None:
    """Lowering asks JAX for its default backend, which would claim every accelerator it finds.

    They are the PJRT client's. Nothing is changed where the user's script has used JAX before.
    """
    with _settling:
        if xla_bridge.backends_are_initialized():
            return
        users = jax.config.jax_platforms
        jax.config.update("jax_platforms", "cpu")
        try:
            xla_bridge.backends()
        finally:
            jax.config.update("jax_platforms", users)


@contextlib.contextmanager
def jax_settings(precision: str, platforms: Sequence[str] = ()) -> Iterator[None]:
    """64-bit types, PyTorch's matmul precision and platforms, for what is traced inside."""
    _keep_jax_on_the_host()
    with (
        jax.enable_x64(True),
        jax.default_matmul_precision(_PRECISIONS[precision]),
        lowering_for(platforms or (client_platform(),)),
    ):
        yield
