"""A captured graph's program through JAX: arguments read as they lie, nodes, results laid out."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from torch_tpu.compiler.building import compile_function
from torch_tpu.compiler.lower import in_memory_order, round_to
from torch_tpu.compiler.node import Program
from torch_tpu.dynamo import dumps
from torch_tpu.dynamo.graph import TensorMeta
from torch_tpu.dynamo.interpreter import Interpreter, State
from torch_tpu.dynamo.program import Binding, GraphSource, Numbers
from torch_tpu.lowering import dtypes, views

Array = Any


def compile_graph(source: GraphSource) -> Program:
    """Trace and compile; GraphError names the node that can't be."""
    state = State()
    filled = [binding for binding in source.bindings if binding.filled]
    shapes = [
        jax.ShapeDtypeStruct(binding.value_dims, dtypes.to_jax(binding.value_dtype))
        for binding in filled
    ]
    program = compile_function(
        lambda inputs: _run(source, state, inputs),
        shapes,
        numbers=source.numbers.counts,
        donated=source.reusable(),
        precision=source.precision,
        ordinal=source.ordinal,
        flags=source.options.xla_flags,
        show=dumps.watcher(source),
    )
    return dataclasses.replace(program, checks=tuple(state.errors))


def _run(source: GraphSource, state: State, inputs: dict[int | str, Array]) -> list[Array]:
    """The new tensors' values, the written storages' values, the checks' code."""
    numbers, graph = source.numbers, source.graph
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
            values.append(read(base, binding, windows.get(place)))
        elif kind == "unused":
            values.append(None)
        else:
            values.append(_number(inputs, kind, numbers.of_input[place], meta))
    if graph.draws:
        state.seed, state.offset = (inputs["ints"][numbers.seed + word] for word in (0, 1))
    interpreter = Interpreter(graph, state)
    results = interpreter.run(values)
    outputs = [
        in_memory_order(results[place], created, None)
        for place, created in zip(source.signature.creates, source.created, strict=True)
    ]
    for place in source.signature.writes:
        slot = source.signature.tensors.index(place)
        value = interpreter.written[place]
        outputs.append(write(bases[slot], source.bindings[slot], windows.get(place), value))
    return outputs + ([state.failure()] if state.codes else [])


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
