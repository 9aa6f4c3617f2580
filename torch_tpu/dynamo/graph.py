"""A captured graph in a form of its own: picklable, comparable, the same text in every process.

Values are numbered through: the inputs first, then each node's result. A value is described by a
``TensorMeta``, by a number's kind, by ``Symbolic`` for a size that Dynamo left open, by None or by
a list of these. An open size is text, a sympy expression over the graph's symbols ("2*s0 + 1").
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import importlib
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensor, unset_fake_temporarily
from torch.utils._pytree import tree_leaves, tree_map

from torch_tpu.compiler.node import overload_of

Size = int | str


@dataclasses.dataclass(frozen=True)
class Ref:
    """A value by its number."""

    place: int


@dataclasses.dataclass(frozen=True)
class Callee:
    """An operator that a higher-order one gets as an argument, by its name."""

    name: str


@dataclasses.dataclass(frozen=True)
class Literal:
    """A tensor that a graph inside another holds itself: its elements, row-major."""

    sizes: tuple[int, ...]
    dtype: torch.dtype
    device: str
    data: bytes

    @classmethod
    def of(cls, tensor: torch.Tensor) -> Literal:
        with unset_fake_temporarily():
            host = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous()
            data = host.reshape(-1).view(torch.uint8).numpy().tobytes() if host.numel() else b""
        return cls(tuple(host.shape), host.dtype, tensor.device.type, data)

    def tensor(self) -> torch.Tensor:
        """The tensor, on its device."""
        if not self.data:
            return torch.empty(self.sizes, dtype=self.dtype, device=self.device)
        flat = torch.frombuffer(bytearray(self.data), dtype=self.dtype)
        return flat.reshape(self.sizes).to(self.device)


@dataclasses.dataclass(frozen=True)
class TensorMeta:
    """What PyTorch promises of a tensor; ``offset`` is that in its storage while it was traced."""

    sizes: tuple[Size, ...]
    strides: tuple[Size, ...]
    dtype: torch.dtype
    device: str
    offset: Size = 0

    @property
    def is_static(self) -> bool:
        return all(isinstance(size, int) for size in (*self.sizes, *self.strides))


@dataclasses.dataclass(frozen=True)
class Symbolic:
    """An integer that is an expression of the graph's symbols."""

    expression: str


@dataclasses.dataclass(frozen=True)
class Site:
    """The user's line that a node comes from; ``file`` is "" where it is not known."""

    file: str = ""
    line: int = 0
    code: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" + (f" ({self.code})" if self.code else "")


@dataclasses.dataclass(frozen=True)
class Node:
    """One operation; ``meta`` describes its result."""

    target: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    meta: Any
    site: Site = dataclasses.field(default=Site(), compare=False, repr=False)

    def refs(self) -> Iterator[Ref]:
        """The values that it reads."""
        yield from refs_in((self.args, self.kwargs))

    def reading(self, numbers: dict[int, Ref]) -> Node:
        """The same operation, which reads its values by other numbers."""

        def renumber(value: Any) -> Any:
            return tree_map(
                lambda leaf: numbers[leaf.place] if isinstance(leaf, Ref) else leaf, value
            )

        return dataclasses.replace(self, args=renumber(self.args), kwargs=renumber(self.kwargs))

    def call(self, values: dict[int, Any]) -> Any:
        """What the operation itself gives, on the host."""
        args, kwargs = resolved(self.args, values), resolved(self.kwargs, values)
        return target_of(self.target)(*args, **kwargs)

    def graphs(self) -> Iterator[Graph]:
        """The graphs that a higher-order operator runs."""
        yield from _leaves((self.args, self.kwargs), Graph)

    def callees(self) -> Iterator[Callee]:
        """The operators that a higher-order operator runs."""
        yield from _leaves((self.args, self.kwargs), Callee)

    def is_random(self) -> bool:
        """Whether it draws random numbers of its own."""
        if self.target == REPEATED:
            return False
        return is_random(self.target) or any(is_random(each.name) for each in self.callees())


@dataclasses.dataclass(frozen=True)
class Graph:
    """Nodes in order, what they start from and what is returned.

    ``limits`` has the largest value of each symbol that has one. Of the outputs from ``visible`` on
    (activations that are saved) nobody sees how they lie.
    ``single`` marks a function that returns its one output itself, not in a tuple.
    """

    inputs: tuple[Any, ...]
    nodes: tuple[Node, ...]
    outputs: tuple[Any, ...]
    limits: dict[str, int] = dataclasses.field(default_factory=dict)
    visible: int | None = None
    single: bool = False

    @functools.cached_property
    def digest(self) -> bytes:
        """Equal for graphs that compute the same, in every process."""
        return hashlib.sha256(repr(self).encode()).digest()

    @functools.cached_property
    def draws(self) -> int:
        """How many random ops it has, those of the graphs inside it included."""
        return sum(
            node.is_random() + sum(each.draws for each in node.graphs()) for node in self.nodes
        )

    def custom_ops(self) -> set[str]:
        """The targets that are neither PyTorch's nor Python's own."""
        own = {node.target for node in self.nodes if is_custom(node.target)}
        return own.union(
            *(inner.custom_ops() for node in self.nodes for inner in node.graphs()),
        )

    def metas(self) -> list[Any]:
        """The description of every value by its number."""
        return [*self.inputs, *(node.meta for node in self.nodes)]

    def written(self) -> set[int]:
        """The numbers of the inputs that the graph writes."""
        return {node.args[0].place for node in self.nodes if node.target == COPY}

    def part(self, places: Sequence[int], outputs: Iterable[int]) -> tuple[Graph, list[int]]:
        """Some of the nodes by their values' numbers, and the numbers of what they read of others.

        Those become the part's inputs. ``outputs`` are among the places.
        """
        first, metas = len(self.inputs), self.metas()
        nodes = [self.nodes[place - first] for place in places]
        read = {ref.place for node in nodes for ref in node.refs()} - set(places)
        inputs = sorted(read | self._showing([*read, *places]))
        numbers = {place: Ref(number) for number, place in enumerate([*inputs, *places])}
        graph = Graph(
            tuple(metas[place] for place in inputs),
            tuple(node.reading(numbers) for node in nodes),
            tuple(numbers[place] for place in outputs),
            limits=self.limits,
        )
        return graph, inputs

    def _showing(self, places: Iterable[int]) -> set[int]:
        """The inputs that show open sizes of some values by themselves."""
        metas = self.metas()
        names = {name for place in places for name in open_names(metas[place])}
        return {
            place
            for place, meta in enumerate(self.inputs)
            if isinstance(meta, Symbolic) and names & {name for _, name in shown(meta)}
        }

    def __call__(self, *inputs: Any) -> Any:
        """Run the nodes one by one: what an operator does with a graph on the host."""
        values = dict(enumerate(inputs))
        for node in self.nodes:
            values[len(values)] = node.call(values)
        outputs = resolved(self.outputs, values)
        return outputs[0] if self.single else outputs

    def symbols(self) -> set[str]:
        """The names of all open sizes, and of integers that are none but vary."""
        return {name for meta in self.metas() for name in open_names(meta)}

    def sizes(self) -> set[str]:
        """The symbols that some tensor's size depends on."""
        tensors = (leaf for leaf in tree_leaves(self.metas()) if isinstance(leaf, TensorMeta))
        return {name for meta in tensors for name in open_names(meta)}


COPY = "aten::copy_"
# Draws again what was drawn before, from the state that was saved then.
REPEATED = "higher_order::run_with_rng_state"
GETITEM = "_operator:getitem"
# Runs a graph that does something, such as recording an event, after the values that it is given.
CONTROL = "higher_order::control_deps"
# Calls an op for its effect, in order: it takes a token and gives the next.
EFFECT = "higher_order::with_effects"
_UNBOUNDED = 2**31  # PyTorch's own "no bound" is larger


def _leaves(value: Any, kind: type) -> Iterator[Any]:
    """What an argument holds of one kind, however nested."""
    if isinstance(value, kind):
        yield value
    elif isinstance(value, dict):
        yield from _leaves(tuple(value.values()), kind)
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _leaves(each, kind)


def is_custom(target: str) -> bool:
    """Whether a node's target is an op of the user's, or of a library's."""
    namespace, found, _ = target.partition("::")
    return bool(found) and namespace not in ("aten", "prims", "higher_order")


def refs_in(value: Any) -> Iterator[Ref]:
    """The references in an argument or in outputs."""
    return _leaves(value, Ref)


def resolved(argument: Any, values: dict[int, Any]) -> Any:
    """An argument with the values in place of the references to them."""

    def resolve(leaf: Any) -> Any:
        if isinstance(leaf, Callee):
            return target_of(leaf.name)
        if isinstance(leaf, Literal):
            return leaf.tensor()
        return values[leaf.place] if isinstance(leaf, Ref) else leaf

    return tree_map(resolve, argument)


def is_random(target: str) -> bool:
    """Whether a node with this target draws random numbers."""
    return torch.Tag.nondeterministic_seeded in getattr(target_of(target), "tags", ())


def names_in(expression: Size) -> set[str]:
    """The symbols of a size."""
    return set(re.findall(r"\b[a-z]+\d+\b", expression)) if isinstance(expression, str) else set()


def open_names(meta: Any) -> Iterator[str]:
    """The symbols in a description."""
    if isinstance(meta, TensorMeta):
        for size in (*meta.sizes, *meta.strides):
            yield from names_in(size)
    elif isinstance(meta, Symbolic):
        yield from names_in(meta.expression)
    elif isinstance(meta, (list, tuple)):
        for each in meta:
            yield from open_names(each)


def shown(meta: Any) -> Iterable[tuple[int | None, str]]:
    """The symbols that a description shows by themselves, and in which dimension."""
    if isinstance(meta, Symbolic) and names_in(meta.expression) == {meta.expression}:
        yield None, meta.expression
    if isinstance(meta, TensorMeta):
        for dim, size in enumerate(meta.sizes):
            if isinstance(size, str) and names_in(size) == {size}:
                yield dim, size


class Reader:
    """Turns an FX graph into a Graph; ``constants`` are tensors that it holds itself.

    They are its last inputs. Those of graphs inside are literals there.
    """

    def __init__(self) -> None:
        self.constants: list[torch.Tensor] = []

    def read(self, module: fx.GraphModule, inside: bool = False) -> Graph:
        """The graph of a module; ``inside`` another graph it has no inputs but its own."""
        held = _tensors_of(module)
        places: dict[fx.Node, Any] = {}
        if inside:
            places.update((node, Literal.of(tensor)) for node, tensor in held.items())
        constants = {} if inside else held
        self.constants += constants.values()
        inputs = [node for node in module.graph.nodes if node.op == "placeholder"]
        for number, node in enumerate([*inputs, *constants]):
            places[node] = Ref(number)
        nodes: list[Node] = []
        outputs: Any = ()
        for node in module.graph.nodes:
            if node.op == "call_function":
                nodes.append(self._node(node, places))
                places[node] = Ref(len(inputs) + len(constants) + len(nodes) - 1)
            elif node.op == "get_attr" and node not in places:
                places[node] = self.read(_attribute(module, node.target), inside=True)
            elif node.op == "output":
                outputs = tree_map(lambda each: _argument(each, places), node.args[0])
            elif node.op not in ("placeholder", "get_attr"):
                raise NotImplementedError(f"torch_tpu: a graph with a {node.op} node ({node})")
        metas = [describe(node.meta.get("val")) for node in inputs]
        metas += [describe(tensor) for tensor in constants.values()]
        single = not isinstance(outputs, (list, tuple))
        outputs = (outputs,) if single else tuple(outputs)
        graph = Graph(tuple(metas), tuple(nodes), outputs, single=single)
        return dataclasses.replace(graph, limits=_limits(module, graph.symbols()))

    def _node(self, node: fx.Node, places: dict[fx.Node, Any]) -> Node:
        return Node(
            target_name(node.target),
            tuple(_argument(each, places) for each in node.args),
            {name: _argument(each, places) for name, each in sorted(node.kwargs.items())},
            describe(_value_of(node)),
            site_of(node),
        )


def _tensors_of(module: fx.GraphModule) -> dict[fx.Node, torch.Tensor]:
    """The tensors that a module's graph reads from it."""
    found = {
        node: _attribute(module, node.target)
        for node in module.graph.nodes
        if node.op == "get_attr"
    }
    return {node: each for node, each in found.items() if isinstance(each, torch.Tensor)}


def _value_of(node: fx.Node) -> Any:
    """What a node gives; AOTAutograd does not say it of what waits for an event and the like."""
    if "val" in node.meta or target_name(node.target) != CONTROL:
        return node.meta.get("val")
    graph = _attribute(node.graph.owning_module, node.args[1].target).graph
    given = graph.output_node().args[0]
    given = given if isinstance(given, (list, tuple)) else [given]
    return [each.meta.get("val") for each in given]


def _limits(module: fx.GraphModule, names: set[str]) -> dict[str, int]:
    """The largest values that the user or Dynamo gave symbols."""
    values = (node.meta.get("val") for node in module.graph.nodes)
    tensors = (value for value in values if isinstance(value, FakeTensor))
    environment = next((value.fake_mode.shape_env for value in tensors), None)
    if not names or environment is None:
        return {}
    return {
        str(symbol): int(known.upper)
        for symbol, known in sorted(environment.var_to_range.items(), key=str)
        if str(symbol) in names and known.upper < _UNBOUNDED
    }


def _attribute(module: fx.GraphModule, name: str) -> Any:
    return functools.reduce(getattr, name.split("."), module)


def _argument(value: Any, places: dict[fx.Node, Any]) -> Any:
    if isinstance(value, fx.Node):
        return places[value]
    if isinstance(value, (list, tuple)):  # FX has list types of its own
        kind = tuple if isinstance(value, tuple) else list
        return kind(_argument(each, places) for each in value)
    if isinstance(value, dict):
        return {name: _argument(each, places) for name, each in sorted(value.items())}
    if isinstance(value, torch.SymInt):
        return size_of(value)
    if isinstance(value, (torch._ops.OpOverload, torch._ops.HigherOrderOperator)):
        return Callee(target_name(value))
    return value


def size_of(size: int | torch.SymInt) -> Size:
    """A size as a number where it is one, else as its expression."""
    if isinstance(size, int):
        return size
    expression = size.node.expr
    return int(expression) if expression.is_number else str(expression)


def describe(value: Any) -> Any:
    """The description of a traced value."""
    if isinstance(value, torch.Tensor):
        strides = value.stride() if value.layout == torch.strided else ()
        return TensorMeta(
            tuple(map(size_of, value.shape)),
            tuple(map(size_of, strides)),
            value.dtype,
            value.device.type,
            size_of(value.storage_offset()) if value.layout == torch.strided else 0,
        )
    if isinstance(value, (list, tuple)):
        return [describe(each) for each in value]
    if isinstance(value, (bool, torch.SymBool)):
        return "bool"
    if isinstance(value, torch.SymInt) and isinstance(size_of(value), str):
        return Symbolic(size_of(value))
    if isinstance(value, (int, torch.SymInt)):
        return "int"
    if isinstance(value, (float, torch.SymFloat)):
        return "float"
    return None


def target_name(target: Any) -> str:
    """The name of what a node calls; ``target_of`` finds it again."""
    if isinstance(target, torch._ops.OpOverload):
        return target.name()
    if isinstance(target, torch._ops.HigherOrderOperator):
        return f"higher_order::{target.name()}"
    return f"{target.__module__}:{target.__qualname__}"


@functools.cache
def target_of(name: str) -> Any:
    """What a node calls."""
    if name.startswith("higher_order::"):
        return getattr(torch.ops.higher_order, name.removeprefix("higher_order::"))
    if "::" in name:
        return overload_of(name)
    module, _, attribute = name.partition(":")
    return functools.reduce(getattr, attribute.split("."), importlib.import_module(module))


_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+), in .*\n\s*(?P<code>.*)')


def site_of(node: fx.Node) -> Site:
    """The innermost line of the user's that a node comes from."""
    frames = list(_FRAME.finditer(node.stack_trace or ""))
    if not frames:
        return Site()
    last = frames[-1]
    return Site(last["file"], int(last["line"]), last["code"].strip())
