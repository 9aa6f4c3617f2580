"""A captured graph over traced arrays: every node through the rule of its op."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import torch
from jax import lax
from torch.utils._python_dispatch import _disable_current_modes

from torch_tpu.compiler.building import first_failure
from torch_tpu.compiler.decomposition import rule_for
from torch_tpu.compiler.lower import round_to
from torch_tpu.dynamo.graph import COPY, Graph, Node, Ref, Site, TensorMeta, target_of
from torch_tpu.lowering import random, registry

Array = Any
Operator = Callable[..., Any]

_OPERATORS: dict[str, Operator] = {}


def operator(*names: str) -> Callable[[Operator], Operator]:
    """Register what runs the nodes of a higher-order operator: ``f(interpreter, node, ...)``."""

    def register(function: Operator) -> Operator:
        _OPERATORS.update(dict.fromkeys(names, function))
        return function

    return register


def has_operator(name: str) -> bool:
    """Whether nodes with this target, which is no ATen op, can be part of a program."""
    return name in _OPERATORS


class GraphError(RuntimeError):
    """A node that can't be lowered: which op, where it stands in the user's code, and why."""

    def __init__(self, node: Node, cause: BaseException):
        where = f" at {node.site}" if node.site.file else ""
        super().__init__(f"torch_tpu: {node.target}{where} can't be compiled: {cause}")
        self.node = node


@dataclasses.dataclass
class State:
    """What the nodes of a graph and of the graphs inside it share."""

    seed: Array = None
    offset: Array = None
    draws: int = 0
    codes: list[tuple[Array, int]] = dataclasses.field(default_factory=list)
    errors: list[tuple[str, str, str, int]] = dataclasses.field(default_factory=list)

    def random_key(self) -> Array:
        """A JAX key of its own for each random op, as eager mode would draw it."""
        self.draws += 1
        return random.key(self.seed, self.offset + (self.draws - 1))

    def failure(self) -> Array:
        """The code of the first check that failed."""
        return first_failure(self.codes)


class Interpreter:
    """Runs one graph; ``written`` holds what its inputs become, by their number."""

    def __init__(self, graph: Graph, state: State, nested: bool = False):
        self.graph = graph
        self.state = state
        self.nested = nested
        self.written: dict[int, Array] = {}

    def run(self, inputs: Sequence[Any]) -> list[Any]:
        """The graph's outputs."""
        self.values = list(inputs)
        self.metas = self.graph.metas()
        for node in self.graph.nodes:
            try:
                self.values.append(self._result(node))
            except GraphError:
                raise
            except Exception as error:
                raise GraphError(node, error) from error
        return [self.read(each) for each in self.graph.outputs]

    def call(self, graph: Graph, inputs: Sequence[Any]) -> list[Any]:
        """The outputs of a graph inside this one."""
        return Interpreter(graph, self.state, nested=True).run(inputs)

    def read(self, value: Any) -> Any:
        """An argument with the values in place of the references to them."""
        if isinstance(value, Ref):
            return self.values[value.place]
        if isinstance(value, (list, tuple)):
            return type(value)(self.read(each) for each in value)
        if isinstance(value, dict):
            return {name: self.read(each) for name, each in value.items()}
        return value

    def meta(self, value: Any) -> Any:
        """The description of an argument that is a reference, else None."""
        return self.metas[value.place] if isinstance(value, Ref) else None

    def _result(self, node: Node) -> Any:
        args, kwargs = self.read(node.args), self.read(node.kwargs)
        if node.target == COPY:
            return self._copy(node, *args)
        if node.target in _OPERATORS:
            return _OPERATORS[node.target](self, node, *args, **kwargs)
        target = target_of(node.target)
        if not isinstance(target, torch._ops.OpOverload):
            return target(*args, **kwargs)
        with registry.collect_checks() as checks:
            result = self.by_rule(target, node, args, kwargs)
        if checks.errors and not self.nested:
            self.state.codes.append((checks.code(), len(checks.errors)))
            site = node.site
            self.state.errors += [(*error, site.file, site.line) for error in checks.errors]
        return promised(result, node.meta)

    def _copy(self, node: Node, destination: Array, source: Array, *rest: Any) -> Array:
        meta = self.metas[node.args[0].place]
        value = lax.broadcast_in_dim(
            round_to(source, meta.dtype),
            destination.shape,
            range(len(destination.shape) - len(source.shape), len(destination.shape)),
        )
        self.written[node.args[0].place] = value
        self.values[node.args[0].place] = value
        return value

    def by_rule(self, overload: Any, node: Node, args: Any, kwargs: dict[str, Any]) -> Any:
        rule = rule_for(overload)
        if rule is None:
            raise NotImplementedError("it has no lowering")
        named: dict[str, Any] = {}
        if rule.layout_of is not None:
            named["contiguous"] = is_contiguous(self._argument_meta(overload, node, rule.layout_of))
        if torch.Tag.nondeterministic_seeded in overload.tags:
            named["generator"] = self.state.random_key()
        if rule.size is not None:
            named["size"] = None
        return registry.call(overload, args, kwargs, rule=rule, named=named)

    def _argument_meta(self, overload: Any, node: Node, name: str) -> TensorMeta:
        place = [argument.name for argument in overload._schema.arguments].index(name)
        return self.meta(node.args[place] if place < len(node.args) else node.kwargs[name])


def promised(result: Any, meta: Any) -> Any:
    """A rule's result with the dtypes that PyTorch promises; a wrong shape is an error."""
    if isinstance(meta, list):
        return [promised(each, item) for each, item in zip(result, meta, strict=False)]
    if not isinstance(meta, TensorMeta) or result is None:
        return result
    array = round_to(result, meta.dtype)
    if meta.is_static and tuple(array.shape) != meta.sizes:
        raise AssertionError(f"lowering gave shape {array.shape}, PyTorch has {meta.sizes}")
    return array


def is_contiguous(meta: TensorMeta) -> bool:
    """Whether a tensor of this description is row-major."""
    with _disable_current_modes():
        return torch.empty_strided(meta.sizes, meta.strides, device="meta").is_contiguous()


__all__ = ["GraphError", "Interpreter", "Site", "State", "has_operator", "operator", "promised"]

# Operators that are registered above.
from torch_tpu.dynamo import factories, off_cpu  # noqa: E402, F401
