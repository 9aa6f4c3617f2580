"""A captured graph's program through JAX: arguments read as they lie, nodes, results laid out."""

from __future__ import annotations

import contextlib
import dataclasses
import operator
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from torch_tpu.compiler.building import compile_function, jax_settings, number_shapes
from torch_tpu.compiler.lower import in_memory_order, round_to
from torch_tpu.compiler.node import Program
from torch_tpu.compiler.target import Device, Target
from torch_tpu.dynamo import dumps, errors
from torch_tpu.dynamo.graph import Graph, Ref, Symbolic, TensorMeta, names_in
from torch_tpu.dynamo.interpreter import GraphError, Interpreter, NeedsExactSizes, State
from torch_tpu.dynamo.options import Options
from torch_tpu.dynamo.program import Binding, GraphSource, Signature, padding_of, whole
from torch_tpu.dynamo.symbols import evaluate
from torch_tpu.lowering import dtypes, registry, sizes, views
from torch_tpu.lowering.intervals import Interval

Array = Any


def compile_graph(source: GraphSource, target: Target | None = None) -> Program:
    """Trace and compile, for the device of the tensors where no target is named.

    GraphError names the node that can't be.
    """
    checks: list[tuple[str, str, str, int]] = []

    def trace(inputs: dict[int | str, Array]) -> list[Array]:
        state = State()
        results = run(source, state, inputs)
        checks[:] = state.errors  # of the last trace: there may be several
        return results

    filled = [binding for binding in source.bindings if binding.filled]
    shapes = [
        jax.ShapeDtypeStruct(binding.value_dims, dtypes.to_jax(binding.value_dtype))
        for binding in filled
    ]
    program = compile_function(
        trace,
        shapes,
        numbers=source.numbers.counts,
        donated=source.reusable(),
        precision=source.precision,
        target=target or Device(source.ordinal),
        flags=source.options.xla_flags,
        show=dumps.watcher(source),
    )
    return dataclasses.replace(program, checks=tuple(checks))


def run(source: GraphSource, state: State, inputs: dict[int | str, Array]) -> list[Array]:
    """The new tensors' values, the written storages' values, the checks' code."""
    with sizes.bounded_trace() if source.signature.symbols else contextlib.nullcontext():
        return _run(source, state, inputs)


def _symbols(source: GraphSource, inputs: dict[int | str, Array]) -> dict[str, Any]:
    """The value of each symbol: a number where it is exact, a Size, or a traced integer."""
    are_sizes, symbols = source.graph.sizes(), {}
    for place, (name, bound) in enumerate(
        zip(source.signature.symbols, source.bounds, strict=True)
    ):
        if name in source.exact:
            symbols[name] = bound
        elif name in are_sizes:
            symbols[name] = sizes.Size(bound, inputs["ints"][place])
        else:
            symbols[name] = registry.weaken(inputs["ints"][place])
    return symbols


def _run(source: GraphSource, state: State, inputs: dict[int | str, Array]) -> list[Array]:
    numbers, graph = source.numbers, source.graph
    state.symbols = _symbols(source, inputs)
    windows = {place: inputs["ints"][number] for place, number in numbers.offsets.items()}
    bases, values = [], []
    filled = 0
    bindings = iter(source.bindings)
    for place, (kind, meta) in enumerate(zip(source.signature.kinds, graph.inputs, strict=True)):
        if kind == "tensor":
            binding = next(bindings)
            if binding.filled:
                base = inputs[filled]
                filled += 1
            else:
                base = jnp.zeros(binding.value_dims, dtypes.to_jax(binding.value_dtype))
            bases.append(base)
            if place in source.signature.padded:
                values.append(_unpadded(base, meta, state.symbols))
            else:
                values.append(read(base, binding, windows.get(place)))
        elif isinstance(meta, Symbolic):
            values += evaluate([meta.expression], state.symbols)
        elif kind == "unused":
            values.append(None)
        else:
            values.append(_number(inputs, kind, numbers.of_input[place], meta))
    if graph.draws:
        state.seed, state.offset = (inputs["ints"][numbers.seed + word] for word in (0, 1))
    interpreter = Interpreter(graph, state)
    interpreter.run(values)
    values = interpreter.values
    metas = graph.metas()
    outputs = []
    for place, meta, created in zip(
        source.signature.creates, source.signature.results, source.created, strict=True
    ):
        if meta.is_static:
            outputs.append(in_memory_order(values[place], created, None))
        else:
            outputs.append(_padded(values[place], meta, created.value_dims))
    for place in source.signature.writes:
        slot = source.signature.tensors.index(place)
        storage, value = source.storage(slot), interpreter.written[place]
        if place in source.signature.padded:
            bases[storage] = _padded(value, metas[place], source.bindings[slot].value_dims)
        else:
            bases[storage] = write(bases[storage], source.bindings[slot], windows.get(place), value)
    outputs += [bases[source.storage(each.slot)] for each in source.writes]
    return outputs + ([state.failure()] if state.codes else [])


def _unpadded(base: Array, meta: TensorMeta, symbols: dict[str, Any]) -> Array:
    """An argument of open sizes, at its bounds, with its true sizes declared."""
    padding = padding_of(meta)
    true = evaluate(padding.sizes, symbols)
    if padding.leads:
        array = sizes.at_bounds(base, tuple(map(operator.index, true)))
    else:
        array = sizes.unpack(base, true)
    back = tuple(padding.order.index(dim) for dim in range(len(true)))
    return sizes.sized(lax.transpose(array, back), evaluate(meta.sizes, symbols))


def _padded(result: Array, meta: TensorMeta, dims: tuple[int, ...]) -> Array:
    """A result of open sizes as the value under its tensor."""
    padding = padding_of(meta)
    true = sizes.sizes_of(result)
    array = lax.transpose(round_to(result, meta.dtype), padding.order)
    if not padding.leads:
        array = sizes.pack(array, [true[dim] for dim in padding.order])
    return sizes.at_bounds(array, dims)


def _number(inputs: dict[int | str, Array], kind: str, place: int, meta: Any) -> Array:
    """A runtime number: a Python one, or a 0-dim CPU tensor, which has a dtype of its own."""
    if kind == "int":
        number = inputs["ints"][place]
    elif kind == "float":
        number = inputs["floats"][place]
    else:
        number = lax.complex(inputs["floats"][place], inputs["floats"][place + 1])
    return round_to(number, meta.dtype) if isinstance(meta, TensorMeta) else number


def read(base: Array, binding: Binding, offset: Array | None) -> Array:
    """The array that an argument sees in its storage's value."""
    if offset is None:
        return views.read(base, _spec(binding, binding.offset))
    return views.read(_window(base, binding, offset), _spec(binding, 0))


def write(base: Array, binding: Binding, offset: Array | None, value: Array) -> Array:
    """The storage's value with an argument's new one in it."""
    value = jnp.broadcast_to(round_to(value, binding.dtype), binding.sizes)
    if offset is None:
        return views.write(base, _spec(binding, binding.offset), value)
    window = views.write(_window(base, binding, offset), _spec(binding, 0), value)
    rows = base.reshape(-1, binding.aligned)
    if binding.aligned == 1:
        rows = lax.dynamic_update_slice(rows[:, 0], window, (offset,))
    else:
        row = lax.dynamic_index_in_dim(rows, offset, keepdims=False)
        row = lax.dynamic_update_slice(row, window, (0,))
        rows = lax.dynamic_update_index_in_dim(rows, row, offset, 0)
    return rows.reshape(base.shape)


def _window(base: Array, binding: Binding, offset: Array) -> Array:
    """The elements from a window's first to its last, flat."""
    if binding.aligned == 1:
        return lax.dynamic_slice(base.reshape(-1), (offset,), (binding.span,))
    rows = base.reshape(-1, binding.aligned)
    return lax.dynamic_index_in_dim(rows, offset, keepdims=False)[: binding.span]


def _spec(binding: Binding, offset: int) -> views.ViewSpec:
    return views.ViewSpec(
        binding.sizes, binding.strides, offset, binding.dtype, binding.conj, binding.neg
    )


def exact_symbols(
    graph: Graph, signature: Signature, bounds: Callable[[frozenset[str]], tuple[int, ...]]
) -> dict[str, tuple[str, int]]:
    """The symbols that must be numbers, each with the op that needs it and its node's number.

    ``bounds`` has an example's, given those symbols that are numbers in it.
    """
    exact = dict(_of_floats(graph, signature))
    while True:
        try:
            numbers = frozenset(exact)
            _trace_at_example(graph, signature, numbers, bounds(numbers))
            return exact
        except NeedsExactSizes as need:
            added = need.symbols.difference(exact)
            if not added:
                raise
            place = next(i for i, node in enumerate(graph.nodes) if node is need.outer)
            exact.update(dict.fromkeys(added, (need.node.target, place)))


def _of_floats(graph: Graph, signature: Signature) -> Iterator[tuple[str, tuple[str, int]]]:
    """The symbols in arguments' sizes that floats take part in, with the first op on each."""
    for input in signature.padded:
        names = {name for size in graph.inputs[input].sizes for name in names_in(size)}
        unknown = dict.fromkeys(names, Interval(0, 1))
        try:
            evaluate(graph.inputs[input].sizes, unknown)
        except TypeError:
            readers = (i for i, node in enumerate(graph.nodes) if Ref(input) in node.refs())
            place = next(readers, 0)
            for name in sorted(names):
                yield name, (graph.nodes[place].target, place)


def _trace_at_example(
    graph: Graph, signature: Signature, exact: frozenset[str], bounds: tuple[int, ...]
) -> None:
    """Trace a graph as for some sizes, for what it can't do."""
    source = GraphSource(graph, signature, (), (), bounds, exact, Options(), 0, "highest")
    bindings = []
    for place in signature.tensors:
        meta = graph.inputs[place]
        dims = source.value_dims(meta) if place in signature.padded else meta.sizes
        bindings.append(whole(dims, meta.dtype))
    source = dataclasses.replace(source, bindings=tuple(bindings))
    named = number_shapes(source.numbers.counts)
    shapes = [
        jax.ShapeDtypeStruct(binding.value_dims, dtypes.to_jax(binding.dtype))
        for binding in bindings
    ]
    names = [*range(len(shapes)), *named]
    try:
        with jax_settings("highest"):
            jax.eval_shape(
                lambda arrays: run(source, State(), dict(zip(names, arrays, strict=True))),
                [*shapes, *named.values()],
            )
        return
    except GraphError as error:
        raised = errors.explained(source, error)
    raise raised
