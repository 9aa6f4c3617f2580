"""A captured graph over traced arrays: every node through the rule of its op."""

from __future__ import annotations

import dataclasses
import functools
import importlib
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import torch
from jax import lax
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_leaves, tree_map

from torch_tpu.compiler.decomposition import rule_for
from torch_tpu.compiler.lower import round_to
from torch_tpu.dynamo.graph import (
    COPY,
    Graph,
    Literal,
    Node,
    Ref,
    Symbolic,
    TensorMeta,
    open_names,
    target_of,
)
from torch_tpu.dynamo.symbols import evaluate, example
from torch_tpu.lowering import bounded, dtypes, random, registry, sizes
from torch_tpu.lowering.checks import collect_checks, first_failure

Array = Any
Operator = Callable[..., Any]

_OPERATORS: dict[str, Operator] = {}
_OPERATOR_MODULES = (
    "control_flow",
    "wrapping",
    "mutating",
    "checkpointing",
    "flex_attention",
    "off_cpu",
)
# Functions of sizes and of structures: they run as they are.
_ON_SIZES = ("_operator", "math", "torch")


def operator(*names: str) -> Callable[[Operator], Operator]:
    """Register what runs the nodes of a higher-order operator: ``f(interpreter, node, ...)``."""

    def register(function: Operator) -> Operator:
        _OPERATORS.update(dict.fromkeys(names, function))
        return function

    return register


@functools.cache
def operators() -> dict[str, Operator]:
    """What runs higher-order operators, by their name."""
    for module in _OPERATOR_MODULES:
        importlib.import_module(f"torch_tpu.dynamo.{module}")
    return _OPERATORS


def lowers(name: str) -> bool:
    """Whether nodes with this target can be part of a program."""
    if name in operators() or name == COPY:
        return True
    target = target_of(name)
    if not isinstance(target, torch._ops.OpOverload):
        return target.__module__ in _ON_SIZES
    return runs(name) and not target._schema.is_mutable


def runs(name: str) -> bool:
    """Whether a higher-order operator that is part of a program may run this one."""
    target = target_of(name)
    if not isinstance(target, torch._ops.OpOverload):
        return name in operators()
    return rule_for(target) is not None


def may_ask_values(name: str) -> bool:
    """Whether the length of an op's result may depend on values."""
    target = target_of(name)
    rule = rule_for(target) if isinstance(target, torch._ops.OpOverload) else None
    return rule is not None and rule.size is not None


def _float(number: Any) -> Any:
    traced = sizes.is_traced(number)
    return registry.weaken(number.astype(jnp.float64)) if traced else float(number)


# In place of functions that Python would give the bound of a size.
_OF_NUMBERS: dict[str, Operator] = {"torch:sym_float": _float}


class GraphError(RuntimeError):
    """A node that can't be lowered: which op, where it stands in the user's code, and why."""

    def __init__(self, node: Node, cause: BaseException):
        where = f" at {node.site}" if node.site.file else ""
        super().__init__(f"torch_tpu: {node.target}{where} can't be compiled: {cause}")
        self.node = node


class NeedsExactSizes(Exception):
    """A node that can't run at bounds, and the symbols that must be numbers for it.

    ``outer`` is the node of the whole graph that it is in.
    """

    def __init__(self, node: Node, symbols: frozenset[str]):
        super().__init__(node.target)
        self.node = self.outer = node
        self.symbols = symbols


@dataclasses.dataclass
class State:
    """What the nodes of a graph share: where random numbers come from, and the checks made.

    ``turns`` are the iterations of the loops around, which draw other numbers each.
    """

    seed: Array = None
    offset: Array = None
    symbols: dict[str, Any] = dataclasses.field(default_factory=dict)
    draws: int = 0
    turns: tuple[Array, ...] = ()
    codes: list[tuple[Array, int]] = dataclasses.field(default_factory=list)
    errors: list[tuple[str, str, str, int]] = dataclasses.field(default_factory=list)

    def random_key(self) -> Array:
        """A JAX key of its own for each random op, as eager mode would draw it."""
        key = random.key(self.seed, self.next_offset())
        return functools.reduce(jax.random.fold_in, self.turns, key)

    def next_offset(self) -> Array:
        """The generator's offset for one random op."""
        self.draws += 1
        return self.offset + (self.draws - 1)

    def fork(self, draws: int) -> State:
        """The state of a graph inside, which draws so often and has checks of its own."""
        offset = None if self.offset is None else self.offset + self.draws
        self.draws += draws
        return State(self.seed, offset, self.symbols, turns=self.turns)

    def report(self, code: Array, errors: list[tuple[str, str, str, int]]) -> None:
        """Add the code of some checks, and what each would raise."""
        if errors:
            self.codes.append((code, len(errors)))
            self.errors += errors

    def failure(self) -> Array:
        """The code of the first check that failed."""
        return first_failure(self.codes)


class Interpreter:
    """Runs one graph; ``written`` holds what its inputs become, by their number."""

    def __init__(self, graph: Graph, state: State):
        self.graph = graph
        self.state = state
        self.written: dict[int, Array] = {}

    def run(self, inputs: Sequence[Any]) -> list[Any]:
        """The graph's outputs."""
        self.values = list(inputs)
        self.metas = self.graph.metas()
        for node in self.graph.nodes:
            try:
                self.values.append(self.result(node))
            except NeedsExactSizes as need:
                need.outer = node
                raise
            except GraphError:
                raise
            except Exception as error:
                raise GraphError(node, error) from error
        return [self.read(each) for each in self.graph.outputs]

    def call(self, graph: Graph, inputs: Sequence[Any]) -> list[Any]:
        """The outputs of a graph inside this one, as if its nodes stood here."""
        return Interpreter(graph, self.state).run(inputs)

    def read(self, value: Any) -> Any:
        """An argument with the values in place of the references to them."""
        if isinstance(value, Ref):
            return self.values[value.place]
        if isinstance(value, Literal):
            return jnp.asarray(dtypes.to_array(value.tensor()))
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
            return self._evaluated(node, [node.meta.expression])[0]
        if node.target in operators():
            if self.state.symbols and bounded.is_dynamic(args, kwargs):
                raise NeedsExactSizes(node, self._symbols_of(node))
            return operators()[node.target](self, node, *args, **kwargs)
        target = target_of(node.target)
        if not isinstance(target, torch._ops.OpOverload):
            function = _OF_NUMBERS.get(node.target, target)
            values = tree_map(sizes.value, args)  # the result is not a size
            return self._of_numbers(node, lambda: function(*values, **kwargs))
        result = promised(self.by_rule(target, node, args, kwargs), node.meta)
        return self.sized(result, node, node.meta)

    def _of_numbers(self, node: Node, function: Callable[[], Any]) -> Any:
        """What Python computes; where it wants numbers, open sizes have to be some."""
        try:
            return function()
        except TypeError:
            values = self.state.symbols
            symbols = frozenset(name for name in values if not isinstance(values[name], int))
            if not symbols:
                raise
            raise NeedsExactSizes(node, self._symbols_of(node) & symbols or symbols) from None

    def _evaluated(self, node: Node, expressions: Sequence[Any]) -> list[Any]:
        return self._of_numbers(node, lambda: evaluate(expressions, self.state.symbols))

    def sized(self, result: Any, node: Node, meta: Any) -> Any:
        """A result with its open sizes declared."""
        if isinstance(meta, list):
            return [self.sized(each, node, item) for each, item in zip(result, meta, strict=True)]
        if not isinstance(meta, TensorMeta) or meta.is_static or result is None:
            return result
        return sizes.sized(result, self._evaluated(node, meta.sizes))

    def _sizes_of(self, node: Node) -> list[Any]:
        """The sizes of a node's first result."""
        first = node.meta if isinstance(node.meta, TensorMeta) else node.meta[0]
        return self._evaluated(node, first.sizes)

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

    def by_rule(
        self, overload: Any, node: Node, args: Any, kwargs: dict[str, Any], key: Array = None
    ) -> Any:
        """What an op's rule returns; ``key`` is for a random op that must not draw its own."""
        named: dict[str, Any] = {}
        if torch.Tag.nondeterministic_seeded in overload.tags:
            named["generator"] = self.state.random_key() if key is None else key
        is_open = self.state.symbols and bounded.is_dynamic(args, kwargs)
        call = self._at_bounds if is_open else self._at_once
        with collect_checks() as checks:
            result = call(overload, node, args, kwargs, named)
        if checks.errors:
            site = node.site
            errors = [(*error, site.file, site.line) for error in checks.errors]
            self.state.report(checks.code(), errors)
        return result

    def _at_bounds(self, overload: Any, node: Node, args: Any, kwargs: Any, named: Any) -> Any:
        """What an op gives for arrays of open sizes."""
        if not bounded.serves(overload, args, kwargs):
            raise NeedsExactSizes(node, self._symbols_of(node))
        drawn = self._sizes_of(node) if "generator" in named else ()
        with sizes.drawing(drawn):
            try:
                return bounded.call(overload, args, kwargs, **named)
            except (TypeError, ValueError) as error:  # bounds of what is equal may differ
                raise NeedsExactSizes(node, self._symbols_of(node)) from error

    def _at_once(self, overload: Any, node: Node, args: Any, kwargs: Any, named: Any) -> Any:
        """What an op gives for arrays whose sizes are all known."""
        rule = rule_for(overload)
        if rule is None:
            raise NotImplementedError(f"{overload} has no lowering")
        if self.state.symbols and _varies(rule, overload, args, kwargs):
            raise NeedsExactSizes(node, self._symbols_of(node))
        if rule.layout_of is not None:
            named["contiguous"] = self._is_contiguous(overload, node, rule.layout_of)
        if rule.size is not None:
            named["size"] = None
        return registry.call(overload, args, kwargs, rule=rule, named=named)

    def _is_contiguous(self, overload: Any, node: Node, name: str) -> bool:
        if not isinstance(target_of(node.target), torch._ops.OpOverload):
            return True
        place = [argument.name for argument in overload._schema.arguments].index(name)
        return is_contiguous(
            self.meta(node.args[place] if place < len(node.args) else node.kwargs[name])
        )


def _varies(
    rule: registry.Rule, overload: Any, args: Sequence[Any], kwargs: dict[str, Any]
) -> bool:
    """Whether an integer that must be a number, such as where a slice starts, is a traced one."""
    named = zip((each.name for each in overload._schema.arguments), args, strict=False)
    values = {**dict(named), **kwargs}
    return any(
        "int" in str(argument.type) and any(map(_is_traced, tree_leaves(values[argument.name])))
        for argument in overload._schema.arguments
        if argument.name in values and argument.name not in rule.runtime
    )


def _is_traced(value: Any) -> bool:
    return isinstance(value, jax.core.Tracer)


def promised(result: Any, meta: Any) -> Any:
    """A rule's result with the dtypes that PyTorch promises; a wrong shape is an error."""
    if isinstance(meta, list):
        return [promised(each, item) for each, item in zip(result, meta, strict=False)]
    if not isinstance(meta, TensorMeta) or result is None:
        return result
    if _left_out(result, meta):
        return jnp.zeros(meta.sizes, dtypes.to_jax(meta.dtype))
    array = round_to(result, meta.dtype)
    if meta.is_static and tuple(array.shape) != meta.sizes:
        raise AssertionError(f"lowering gave shape {array.shape}, PyTorch has {meta.sizes}")
    return array


def _left_out(result: Any, meta: TensorMeta) -> bool:
    """Whether a rule, as PyTorch's kernel for the CPU, leaves out what kernels elsewhere give."""
    return getattr(result, "shape", ()) == (0,) != meta.sizes


def is_contiguous(meta: TensorMeta) -> bool:
    """Whether a tensor of this description is row-major, whatever its open sizes are."""
    sizes_and_strides = (evaluate(each, example(meta)) for each in (meta.sizes, meta.strides))
    with _disable_current_modes():
        return torch.empty_strided(*sizes_and_strides, device="meta").is_contiguous()
