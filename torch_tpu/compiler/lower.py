"""A node as one JAX function over its program's inputs: read views, run the rule, write back."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
import torch
from jax import lax
from torch.utils._python_dispatch import _disable_current_modes

from torch_tpu.compiler.layout import memory_order, value_dims
from torch_tpu.compiler.metadata import Metadata
from torch_tpu.compiler.node import Created, Dims, Edge, Node, Number, Resize, Write
from torch_tpu.lowering import dtypes, random, registry, sizes, views
from torch_tpu.lowering.checks import collect_checks
from torch_tpu.lowering.promotion import cast


@dataclasses.dataclass
class Traced:
    """A node ready for tracing: its inputs, what it writes, and the function over both."""

    node: Node
    rule: registry.Rule
    metadata: Metadata
    bound: int | None = None
    writes: list[Write] = dataclasses.field(default_factory=list)
    errors: list[tuple[str, str]] = dataclasses.field(default_factory=list)

    def __post_init__(self) -> None:
        self.overload = self.node.overload
        self.schema = self.overload._schema.arguments
        self.resized = {resize.argument: resize for resize in self.metadata.resizes}

    @property
    def inputs(self) -> list[int | str]:
        """The program's possible parameters: filled slots, integers, floats."""
        slots: list[int | str] = [i for i, slot in enumerate(self.node.slots) if slot.filled]
        ints = self.node.ints or self.node.is_random
        return slots + ["ints"] * bool(ints) + ["floats"] * bool(self.node.floats)

    def shapes(self) -> list[jax.ShapeDtypeStruct]:
        """The inputs' shapes and dtypes, in order."""

        def shape(source: int | str) -> jax.ShapeDtypeStruct:
            if source == "ints":
                return jax.ShapeDtypeStruct((self.node.ints + 2 * self.node.is_random,), jnp.int64)
            if source == "floats":
                return jax.ShapeDtypeStruct((self.node.floats,), jnp.float64)
            slot = self.node.slots[source]
            return jax.ShapeDtypeStruct(slot.dims, dtypes.to_jax(slot.dtype))

        return [shape(source) for source in self.inputs]

    def run(self, *inputs: Any) -> list[Any]:
        """The program's outputs: new tensors' values, written slots' values, the checks' code."""
        environment = _Environment(self.node, dict(zip(self.inputs, inputs, strict=True)))
        with collect_checks() as checks:
            results = self._call(self.rule.function, environment, sized=self.bound is not None)
            results = list(results) if isinstance(results, tuple) else [results]
            self.metadata = self.metadata.without_undefined(results)
            new = self._created(results, environment)
            self._write(results, environment)
        self.writes = environment.writes()
        self.errors = checks.errors
        outputs = new + [environment.slots[write.slot] for write in self.writes]
        return outputs + ([checks.code()] if checks.errors else [])

    def results(self, *inputs: Any) -> list[Any]:
        """What the rule itself returns for the new tensors."""
        environment = _Environment(self.node, dict(zip(self.inputs, inputs, strict=True)))
        results = self._call(self.rule.function, environment, sized=self.bound is not None)
        return list(results) if isinstance(results, tuple) else [results]

    def size(self, *inputs: Any) -> Any:
        """The length that the values decide, int64; None where the arguments decide none."""
        environment = _Environment(self.node, dict(zip(self.inputs, inputs, strict=True)))
        assert self.rule.size is not None
        size = self._call(self.rule.size, environment, sized=False)
        return None if size is None else lax.convert_element_type(size, jnp.int64)

    def _call(self, function: Any, environment: _Environment, sized: bool) -> Any:
        positional, named = [], {}
        for argument, value in zip(self.schema, self.node.arguments, strict=True):
            if argument.is_out or "Generator" in str(argument.type):
                continue
            bound = environment.read(value)
            if argument.kwarg_only:
                named[argument.name] = bound
            else:
                positional.append(bound)
        if self.rule.layout_of is not None:
            named["contiguous"] = self._is_contiguous(self.rule.layout_of)
        if self.node.is_random:
            named["generator"] = environment.random_key()
        if function is self.rule.function and self.rule.size is not None:
            named["size"] = self.bound if sized else None
        return function(*positional, **named)

    def _is_contiguous(self, name: str) -> bool:
        place = [argument.name for argument in self.schema].index(name)
        edge = self.node.arguments[place]
        with _disable_current_modes():
            return torch.empty_strided(edge.sizes, edge.strides, device="meta").is_contiguous()

    def _created(self, results: list[Any], environment: _Environment) -> list[Any]:
        new: list[Any] = []

        def collect(place: Any, result: Any) -> None:
            if isinstance(place, list):
                for each, item in zip(place, result, strict=True):
                    collect(each, item)
            elif place is not None and place[0] == "new":
                created = self.metadata.created[place[1]]
                new.append(in_memory_order(result, created, self._length(environment, created)))

        for place, result in zip(self.metadata.returns, results, strict=False):
            collect(place, result)
        return new

    def _length(self, environment: _Environment, created: Created) -> Any:
        """The length as a traced number, where the tensor's layout needs it."""
        if -1 not in created.sizes[1:]:
            return None
        return self._call(self.rule.size, environment, sized=False)

    def _write(self, results: list[Any], environment: _Environment) -> None:
        """Give what the op mutates its new values: returns that are arguments, then the rest."""
        returned = {
            place[1]: number
            for number, place in enumerate(self.metadata.returns)
            if _is_argument(place)
        }
        extra = iter(results[len(self.metadata.returns) :])
        for number, argument in enumerate(self.schema):
            value = self.node.arguments[number]
            written = argument.alias_info is not None and argument.alias_info.is_write
            if value is None or not (written or argument.name in self.rule.writes):
                continue
            result = results[returned[number]] if number in returned else next(extra)
            targets = value if isinstance(value, list) else [value]
            values = result if isinstance(value, list) else [result]
            for place, (edge, item) in enumerate(zip(targets, values, strict=True)):
                path = (number, place) if isinstance(value, list) else (number,)
                environment.write(edge, item, self.resized.get(path))


def _is_argument(place: Any) -> bool:
    return isinstance(place, tuple) and place[0] == "argument"


class _Environment:
    """The slots' arrays while a node is traced."""

    def __init__(self, node: Node, inputs: dict[int | str, Any]):
        self.node = node
        self.inputs = inputs
        self.slots: dict[int, Any] = {
            place: inputs[place] if slot.filled else jnp.zeros(slot.dims, dtypes.to_jax(slot.dtype))
            for place, slot in enumerate(node.slots)
        }
        self.written: dict[int, tuple[Dims, torch.dtype]] = {}

    def read(self, argument: Any) -> Any:
        if isinstance(argument, list):
            return [self.read(item) for item in argument]
        if isinstance(argument, Edge):
            return views.read(self.slots[argument.slot], _spec(argument))
        if isinstance(argument, Number):
            return self._number(argument)
        return argument

    def _number(self, number: Number) -> Any:
        ints, floats = self.inputs.get("ints"), self.inputs.get("floats")
        read = {
            "bool": lambda place: ints[place] != 0,
            "int": lambda place: ints[place],
            "float": lambda place: floats[place],
            "complex": lambda place: lax.complex(floats[place], floats[place + 1]),
        }
        value = read[number.kind](number.place)
        if number.dtype is not None:
            value = lax.convert_element_type(value, dtypes.to_jax(number.dtype))
        return registry.weaken(value) if number.wrapped else value

    def random_key(self) -> Any:
        ints = self.inputs["ints"]
        return random.key(ints[self.node.ints], ints[self.node.ints + 1])

    def write(self, edge: Edge, value: Any, resize: Resize | None) -> None:
        base = self.slots[edge.slot]
        if resize is not None:
            edge = dataclasses.replace(edge, sizes=resize.sizes, strides=resize.strides)
            dims = resize.sizes if edge.offset == 0 else (edge.offset + math.prod(resize.sizes),)
            base = jnp.zeros(dims, dtypes.to_jax(edge.dtype))
        value = jnp.broadcast_to(round_to(value, edge.dtype), edge.sizes)
        self.slots[edge.slot] = views.write(base, _spec(edge), value)
        self.written[edge.slot] = (tuple(base.shape), dtypes.to_torch(base.dtype))

    def writes(self) -> list[Write]:
        return [Write(slot, dims, dtype) for slot, (dims, dtype) in sorted(self.written.items())]


def _spec(edge: Edge) -> views.ViewSpec:
    return views.ViewSpec(edge.sizes, edge.strides, edge.offset, edge.dtype, edge.conj, edge.neg)


def round_to(value: Any, dtype: torch.dtype) -> Any:
    """A rule's result in the dtype that PyTorch promises."""
    return cast(value, dtype)


def in_memory_order(result: Any, created: Created, length: Any) -> Any:
    """A rule's result as the Value under the tensor that PyTorch promises."""
    result = round_to(result, created.dtype)
    if -1 in created.sizes:
        return result if length is None else _packed(result, created.sizes, length)
    if tuple(result.shape) != created.sizes:
        raise AssertionError(f"lowering gave shape {result.shape}, PyTorch has {created.sizes}")
    if 0 in created.sizes:
        return result
    order = memory_order(created)
    if order is None:
        spec = views.ViewSpec(created.sizes, created.strides, 0, created.dtype)
        return views.write(jnp.zeros(value_dims(created, None), result.dtype), spec, result)
    return result if order == tuple(range(len(order))) else lax.transpose(result, order)


def _packed(padded: Any, promised: Dims, length: Any) -> Any:
    """The elements before ``length`` along a padded dim, row-major at the front of a flat array."""
    bounds = zip(promised, padded.shape, strict=True)
    with sizes.bounded_trace():
        return sizes.pack(padded, [length if size == -1 else bound for size, bound in bounds])
