"""A captured graph over traced arrays: every node through the rule of its op."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
import torch
from jax import lax
from jax.export import is_symbolic_dim
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_leaves

from torch_tpu.compiler.building import first_failure
from torch_tpu.compiler.decomposition import rule_for
from torch_tpu.compiler.lower import round_to
from torch_tpu.dynamo.graph import (
    COPY,
    Graph,
    Node,
    Ref,
    Symbolic,
    TensorMeta,
    open_names,
    target_of,
)
from torch_tpu.dynamo.symbols import evaluate
from torch_tpu.lowering import bounded, random, registry, sizes

Array = Any
Operator = Callable[..., Any]

_OPERATORS: dict[str, Operator] = {}
# Functions of sizes and of structures: they run as they are.
_ON_SIZES = ("_operator", "math", "torch")


def operator(*names: str) -> Callable[[Operator], Operator]:
    """Register what runs the nodes of a higher-order operator: ``f(interpreter, node, ...)``."""

    def register(function: Operator) -> Operator:
        _OPERATORS.update(dict.fromkeys(names, function))
        return function

    return register


def lowers(name: str) -> bool:
    """Whether nodes with this target can be part of a program."""
    if name in _OPERATORS or name == COPY:
        return True
    target = target_of(name)
    if not isinstance(target, torch._ops.OpOverload):
        return target.__module__ in _ON_SIZES
    rule = rule_for(target)
    return rule is not None and rule.size is None and not target._schema.is_mutable


class GraphError(RuntimeError):
    """A node that can't be lowered: which op, where it stands in the user's code, and why."""

    def __init__(self, node: Node, cause: BaseException):
        where = f" at {node.site}" if node.site.file else ""
        super().__init__(f"torch_tpu: {node.target}{where} can't be compiled: {cause}")
        self.node = node


class NeedsExactSizes(Exception):
    """A node that can't run at bounds, and the symbols that must be numbers for it."""

    def __init__(self, node: Node, symbols: frozenset[str]):
        super().__init__(node.target)
        self.node = node
        self.symbols = symbols


@dataclasses.dataclass
class State:
    """What the nodes of a graph and of the graphs inside it share."""

    seed: Array = None
    offset: Array = None
    symbols: dict[str, Any] = dataclasses.field(default_factory=dict)
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
                self.values.append(self.result(node))
            except (GraphError, NeedsExactSizes):
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

    def result(self, node: Node) -> Any:
        """What a node gives."""
        args, kwargs = self.read(node.args), self.read(node.kwargs)
        if node.target == COPY:
            return self._copy(node, *args)
        if isinstance(node.meta, Symbolic):
            return evaluate([node.meta.expression], self.state.symbols)[0]
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
        return self._sized(promised(result, node.meta), node.meta)

    def _sized(self, result: Any, meta: Any) -> Any:
        """A result with its open sizes declared."""
        if isinstance(meta, list):
            return [self._sized(each, item) for each, item in zip(result, meta, strict=True)]
        if not isinstance(meta, TensorMeta) or meta.is_static or result is None:
            return result
        true = evaluate(meta.sizes, self.state.symbols)
        return result if any(map(is_symbolic_dim, true)) else sizes.sized(result, true)

    def _symbols_of(self, node: Node) -> frozenset[str]:
        """The open sizes that a node touches."""
        metas = [node.meta, *(self.metas[ref.place] for ref in node.refs())]
        return frozenset(name for meta in metas for name in open_names(meta))

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
        if self.state.symbols and bounded.is_dynamic(args, kwargs):
            if not bounded.serves(overload, args, kwargs):
                raise NeedsExactSizes(node, self._symbols_of(node))
            if torch.Tag.nondeterministic_seeded in overload.tags:
                named["generator"] = self.state.random_key()
            return bounded.call(overload, args, kwargs, **named)
        if self.state.symbols and _varies(overload, args, kwargs):
            raise NeedsExactSizes(node, self._symbols_of(node))
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


def _varies(overload: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
    """Whether an integer that must be a number, such as where a slice starts, is a traced one."""
    named = zip((each.name for each in overload._schema.arguments), args, strict=False)
    values = {**dict(named), **kwargs}
    return any(
        "int" in str(argument.type) and any(map(_is_traced, tree_leaves(values[argument.name])))
        for argument in overload._schema.arguments
        if argument.name in values
    )


def _is_traced(value: Any) -> bool:
    return isinstance(value, jax.core.Tracer)


def promised(result: Any, meta: Any) -> Any:
    """A rule's result with the dtypes that PyTorch promises; a wrong shape is an error."""
    if isinstance(meta, list):
        return [
            None if _left_out(each, item) else promised(each, item)
            for each, item in zip(result, meta, strict=False)
        ]
    if not isinstance(meta, TensorMeta) or result is None:
        return result
    array = round_to(result, meta.dtype)
    if meta.is_static and tuple(array.shape) != meta.sizes:
        raise AssertionError(f"lowering gave shape {array.shape}, PyTorch has {meta.sizes}")
    return array


def _left_out(result: Any, meta: Any) -> bool:
    """Whether rules, as PyTorch's kernels for the CPU, leave out what other kernels give."""
    return isinstance(meta, TensorMeta) and getattr(result, "shape", ()) == (0,) != meta.sizes


def is_contiguous(meta: TensorMeta) -> bool:
    """Whether a tensor of this description is row-major, whatever its open sizes are."""
    examples = {name: 64 + place for place, name in enumerate(sorted(open_names(meta)))}
    with _disable_current_modes():
        return torch.empty_strided(
            evaluate(meta.sizes, examples), evaluate(meta.strides, examples), device="meta"
        ).is_contiguous()


__all__ = [
    "GraphError",
    "Interpreter",
    "NeedsExactSizes",
    "State",
    "lowers",
    "operator",
    "promised",
]

# Their operators are registered above.
from torch_tpu.dynamo import draws, factories, off_cpu  # noqa: E402, F401
