"""What a call returns and what it refuses: CPU PyTorch's answer, asked once per program.

The op itself runs on the CPU over stand-ins of the same shapes where that is cheap; it knows its
errors best. Where it would be slow, or reads values that stand-ins can't have, PyTorch's meta
kernels answer.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._C import DispatchKey
from torch.utils._python_dispatch import _disable_current_modes

from torch_tpu.compiler.node import Created, Edge, Node, Number, Resize

aten = torch.ops.aten

# Work that grows faster than the tensors do is cheap for small ones only.
_CHEAP_ELEMENTS, _CHEAP_SUPERLINEAR = 1 << 22, 1 << 14
_SUPERLINEAR = (
    "mm", "bmm", "addmm", "baddbmm", "convolution", "linalg_", "_linalg_", "cdist", "_cdist",
    "ormqr", "geqrf", "cholesky", "lu_", "attention", "_conv", "grid_sampler", "_ctc", "ctc",
    "upsample", "_upsample", "roi_align", "einsum", "_trilinear", "pdist", "_pdist", "median",
    "sort", "mode", "kthvalue", "embedding_bag", "_embedding_bag", "triangular_solve",
    "matrix_exp", "householder",
)  # fmt: skip

# Their CPU kernels look at values that stand-ins don't have.
_READS_VALUES = (
    "_assert_async", "segment_reduce", "_segment_reduce_backward", "histogram",
    "_linalg_check_errors", "binomial", "_ctc_loss", "_ctc_loss_backward", "embedding_bag",
    "max_unpool2d", "max_unpool3d", "_cholesky_solve_helper", "cholesky", "lu_unpack",
    "linalg_lu_solve",
)  # fmt: skip

# The same, and they have no meta kernel.
_ONLY_READ_VALUES = ("aten::_padded_dense_to_jagged_forward",)

# Their CPU kernels refuse more than what is there, where a mask is true.
_WANTS_FALSE = ("masked_scatter", "masked_scatter_backward")

# Their CPU kernels end the process where rows are no multiple of this many elements.
_OVERRUNS = {"_weight_int8pack_mm": 16}

# Their CPU kernels refuse a matrix of ones, which lacks rank.
_WANTS_RANK = ("aten::linalg_lstsq", "aten::linalg_ldl_factor_ex")

# Their CPU kernels refuse integers of zero: as what they divide by, as pivots.
_DIVIDES = ("div", "remainder", "fmod", "floor_divide", "ldl_solve")

# What else their CPU kernels return besides the result depends on strides; rules return one form.
_LAYOUT_BLIND = ("_embedding_bag", "_embedding_bag_forward_only")

# Numbers that must be zero where a list is empty, as the CPU kernel insists.
_ZERO_WITHOUT = {"aten::_fused_sgd_": ("momentum", "momentum_buffer_list")}

# Their meta kernels ask absent biases, the last two arguments, for their device.
_WANTS_BIASES = ("aten::_thnn_fused_lstm_cell",)

# The CPU has no kernel for this form of attention.
_ATTENTION = "_scaled_dot_product_fused_attention_overrideable"

# How PyTorch words that the CPU has no kernel at all.
_NO_CPU_KERNEL = ("Could not run", "operator for privateuse1 backends")


@dataclasses.dataclass(frozen=True)
class Metadata:
    """``returns`` as in Plan; ``created`` without the dims of their values."""

    created: list[Created]
    returns: list[Any]
    resizes: list[Resize]

    def without_undefined(self, results: list[Any]) -> Metadata:
        """The same, less the new tensors for which a rule gives None (nobody wants them)."""
        created: list[Created] = []

        def defined(place: Any, result: Any) -> Any:
            if isinstance(place, list):
                return [defined(*pair) for pair in zip(place, result, strict=True)]
            if place is None or place[0] != "new":
                return place
            if result is None:
                return None
            created.append(self.created[place[1]])
            return ("new", len(created) - 1)

        count = len(self.returns)
        returns = [defined(*pair) for pair in zip(self.returns, results[:count], strict=False)]
        return Metadata(created, returns + self.returns[len(returns) :], self.resizes)


_ANSWERING = (
    DispatchKey.CPU, DispatchKey.Meta, DispatchKey.CompositeImplicitAutograd,
    DispatchKey.CompositeExplicitAutograd, DispatchKey.CompositeExplicitAutogradNonFunctional,
)  # fmt: skip


def is_known(overload: torch._ops.OpOverload) -> bool:
    """Whether PyTorch has a kernel, for the CPU or meta, that can answer."""
    if overload.name() in _ONLY_READ_VALUES:
        return False
    return any(overload.has_kernel_for_dispatch_key(key) for key in _ANSWERING)


def of_shapes(node: Node, shapes: list[Any]) -> Metadata:
    """The answer for an op that PyTorch can't ask: new tensors of the shapes its rule gives.

    They are row-major, in the dtype of the call's first tensor; None is an undefined tensor.
    """
    created: list[Created] = []
    returns: list[Any] = []
    for shape in shapes:
        returns.append(None if shape is None else ("new", len(created)))
        if shape is not None:
            sizes = tuple(shape.shape)
            strides = torch._prims_common.make_contiguous_strides_for(sizes)
            created.append(Created(sizes, tuple(strides), _first_dtype(node)))
    return Metadata(created, returns, [])


def infer(node: Node) -> Metadata:
    """Run PyTorch's own answer for a call. Raises what CPU PyTorch raises for it."""
    with _quiet_dispatch():
        name = _name(node)
        if name == _ATTENTION:
            _refuse_attention(node)
            return _meta_answer(_attended(node))
        if name in _LAYOUT_BLIND:
            node = dataclasses.replace(node, arguments=list(map(_row_major, node.arguments)))
        if _reads_values(name) or _overruns(node, name):
            return _meta_answer(node)
        if _is_cheap(node, name):
            return _first_answer(node, "cpu", "meta")
        return _large(node)


def _name(node: Node) -> str:
    return node.overload._schema.name.split("::")[1]


def _reads_values(name: str) -> bool:
    return name.rstrip("_") in _READS_VALUES


def _overruns(node: Node, name: str) -> bool:
    first = next(edges(node.arguments), None)
    return name in _OVERRUNS and bool(first.sizes) and first.sizes[-1] % _OVERRUNS[name] != 0


def _divides(node: Node) -> bool:
    return any(word in node.op for word in _DIVIDES)


def _is_cheap(node: Node, name: str) -> bool:
    elements = sum(math.prod(edge.sizes) for edge in edges(node.arguments))
    superlinear = any(word in name for word in _SUPERLINEAR)
    return elements <= (_CHEAP_SUPERLINEAR if superlinear else _CHEAP_ELEMENTS)


def _first_answer(node: Node, device: str, other: str) -> Metadata:
    """The first device's answer, the other's where the first has no kernel."""
    try:
        return _run(node, device)
    except NotImplementedError as error:
        if device == "cpu" and not any(words in str(error) for words in _NO_CPU_KERNEL):
            raise  # the CPU kernel itself refuses, a dtype for instance
        with contextlib.suppress(NotImplementedError):
            return _run(node, other)
        raise


def _large(node: Node) -> Metadata:
    """Meta kernels for what is slow on the CPU; the CPU's words for what they refuse."""
    if all(edge.dtype == _first_dtype(node) for edge in edges(node.arguments)):
        _refuse_dtypes(node)
        return _meta_answer(node)
    return _first_answer(node, "cpu", "meta")  # mixed dtypes: meta kernels let too much pass


def _meta_answer(node: Node) -> Metadata:
    """The meta kernel's answer; whatever it refuses, the CPU kernel says it better."""
    try:
        return _first_answer(node, "meta", "cpu")
    except Exception:
        with contextlib.suppress(NotImplementedError):
            return _run(node, "cpu")
        raise


def _refuse_dtypes(node: Node) -> None:
    """Raise what the CPU kernel says of the dtypes, which meta kernels don't look at.

    It is asked about tensors that are next to nothing, so nothing else that it says counts.
    """
    small = dataclasses.replace(node, arguments=_shrunk(node.arguments))
    try:
        _run(small, "cpu")
    except NotImplementedError as error:
        if "not implemented for" in str(error):
            raise
    except Exception:  # sizes that don't fit together any more
        pass


def _shrunk(argument: Any) -> Any:
    if isinstance(argument, list):
        return [_shrunk(item) for item in argument]
    if not isinstance(argument, Edge):
        return argument
    sizes = tuple(min(size, 2) for size in argument.sizes)
    strides = tuple(2**place for place in reversed(range(len(sizes))))
    return dataclasses.replace(argument, sizes=sizes, strides=strides, offset=0)


def _refuse_attention(node: Node) -> None:
    """Raise what attention's own function, of which this op is one way to run, refuses."""

    def attend(device: str) -> None:
        query, key, value, mask, dropout, causal, _, scale = map(
            _stand_in(node, device), node.arguments
        )
        # The op doesn't say whether queries share keys; another count of heads can mean that only.
        grouped = query.dim() == 4 and key.dim() == 4 and query.shape[1] != key.shape[1]
        torch.nn.functional.scaled_dot_product_attention(
            query, key, value, mask, dropout, causal, scale=scale, enable_gqa=grouped
        )

    try:
        attend("meta")
    except Exception:  # the CPU says it better
        attend("cpu")


def _attended(node: Node) -> Node:
    """The call with a query laid out as the CPU lays out what it attends to.

    That is as the query where the CPU has a fused kernel, row-major where it does the plain math.
    """
    query, key, value, *others = node.arguments
    if all(each.strides[-1] == 1 for each in (query, key, value)):
        return node
    return dataclasses.replace(node, arguments=[_row_major(query), key, value, *others])


def _row_major(argument: Any) -> Any:
    if not isinstance(argument, Edge):
        return argument
    strides = torch._prims_common.make_contiguous_strides_for(argument.sizes)
    return dataclasses.replace(argument, strides=tuple(strides))


def _first_dtype(node: Node) -> torch.dtype:
    return next(iter(edges(node.arguments))).dtype


def edges(arguments: Any) -> Iterator[Edge]:
    """The tensor arguments, in order."""
    for argument in arguments:
        if isinstance(argument, Edge):
            yield argument
        elif isinstance(argument, list):
            yield from edges(argument)


@contextlib.contextmanager
def _quiet_dispatch() -> Iterator[None]:
    """The user's modes, grad mode and random state must not see the stand-ins."""
    state = torch.random.get_rng_state()
    with (
        torch._C.DisableTorchFunction(),
        _disable_current_modes(),
        torch.no_grad(),
        warnings.catch_warnings(),
        _without_alerts(),
    ):
        yield
    if not torch.equal(state, torch.random.get_rng_state()):
        torch.random.set_rng_state(state)


@contextlib.contextmanager
def _without_alerts() -> Iterator[None]:
    """Programs repeat their results bit for bit; CPU kernels that may not are not asked of that."""
    if not torch.are_deterministic_algorithms_enabled():
        yield
        return
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    torch._C._set_deterministic_algorithms(False)
    try:
        yield
    finally:
        torch._C._set_deterministic_algorithms(True, warn_only=warn_only)


def _stand_in(node: Node, device: str) -> Callable[[Any], Any]:
    memories = _shared_memories(node, device)

    def build(argument: Any) -> Any:
        if isinstance(argument, list):
            return [build(item) for item in argument]
        if isinstance(argument, Edge):
            return _stand_in_tensor(
                argument, memories.get(argument.slot) or _memory(node, [argument], device)
            )
        if isinstance(argument, Number):
            return _stand_in_number(argument)
        return argument

    return build


@dataclasses.dataclass(frozen=True)
class _Memory:
    """The elements of a storage from ``start`` on that stand-ins look at."""

    start: int
    elements: torch.Tensor


def _shared_memories(node: Node, device: str) -> dict[int, _Memory]:
    """What several arguments look at, by slot: kernels refuse some ways to overlap."""
    views: dict[int, list[Edge]] = {}
    for edge in edges(node.arguments):
        views.setdefault(edge.slot, []).append(edge)
    return {
        slot: _memory(node, group, device)
        for slot, group in views.items()
        if len(group) > 1 and len({edge.dtype for edge in group}) == 1
    }


def _memory(node: Node, group: list[Edge], device: str) -> _Memory:
    """Ones, so that they divide and normalise; zeros for other integers, so that they index."""
    start = min(edge.offset for edge in group)
    length = max(edge.offset - start + _extent(edge) for edge in group)
    dtype = group[0].dtype
    ones = dtype.is_floating_point or dtype == torch.bool or _divides(node)
    ones &= _name(node).rstrip("_") not in _WANTS_FALSE
    if device == "meta" or not ones:
        return _Memory(start, torch.zeros(length, dtype=dtype, device=device))
    return _Memory(start, torch.ones(length, dtype=torch.float32, device=device).to(dtype))


def _extent(edge: Edge) -> int:
    """How many elements lie between a view's first and its last, with both."""
    if 0 in edge.sizes:
        return 0
    return 1 + sum((n - 1) * s for n, s in zip(edge.sizes, edge.strides, strict=True))


def _stand_in_tensor(edge: Edge, memory: _Memory) -> torch.Tensor:
    tensor = memory.elements.as_strided(edge.sizes, edge.strides, edge.offset - memory.start)
    tensor = torch._neg_view(tensor) if edge.neg else tensor
    return torch._conj(tensor) if edge.conj else tensor


def _stand_in_number(number: Number) -> Any:
    # Integers ascend, so that a range between two of them isn't empty; a complex number is real,
    # so that whatever takes some of them takes it.
    ascending = number.place + 1
    value = {"bool": True, "int": ascending, "float": 0.5, "complex": 0.5 + 0j}[number.kind]
    if number.dtype is None:
        return value
    if number.wrapped:
        return _wrapped_number(value)
    return torch.tensor(value, dtype=number.dtype, device="cpu")


def _wrapped_number(value: Any) -> torch.Tensor:
    """The 0-dim tensor that PyTorch makes of a Python number, which promotes as the number does.

    Only autograd hands one out in Python: as what it saved of a multiplication.
    """
    with torch.inference_mode(False), torch.enable_grad():
        product = torch.ones((), requires_grad=True, device="cpu") * value
        return product.grad_fn._saved_other


def _zero_absent(overload: torch._ops.OpOverload, arguments: list[Any]) -> None:
    number, owner = _ZERO_WITHOUT.get(overload._schema.name, (None, None))
    names = [argument.name for argument in overload._schema.arguments]
    if owner is not None and not arguments[names.index(owner)]:
        arguments[names.index(number)] = 0.0


def _run(node: Node, device: str) -> Metadata:
    overload = node.overload
    arguments = list(map(_stand_in(node, device), node.arguments))
    wants_rank = overload._schema.name in _WANTS_RANK and device == "cpu"
    if wants_rank and arguments[0].dim() > 1:
        identity = torch.eye(*arguments[0].shape[-2:], dtype=arguments[0].dtype, device="cpu")
        arguments[0] = torch.empty_like(arguments[0]).copy_(identity)
    _zero_absent(overload, arguments)
    if overload._schema.name in _WANTS_BIASES and arguments[-1] is None:
        arguments[-2:] = [arguments[0].new_empty(arguments[0].shape[1:])] * 2
    named = {
        argument.name: value
        for argument, value in zip(overload._schema.arguments, arguments, strict=True)
        if argument.kwarg_only
    }
    if device == "meta" and "device" in named:
        named["device"] = torch.device("meta")
    positional = arguments[: len(arguments) - len(named)]
    results = overload(*positional, **named)
    if not overload._schema.returns:
        results = ()
    elif len(overload._schema.returns) == 1:
        results = (results,)
    created: list[Created] = []

    def describe(result: Any) -> Any:
        if isinstance(result, (list, tuple)):
            return [describe(item) for item in result]
        if result is None:
            return None
        if isinstance(result, int):
            return ("number", result)
        for number, argument in enumerate(arguments):
            written = overload._schema.arguments[number].alias_info is not None
            if result is argument and written:
                return ("argument", number)
        created.append(Created(tuple(result.shape), tuple(result.stride()), result.dtype))
        return ("new", len(created) - 1)

    return Metadata(
        created,
        [describe(result) for result in results],
        list(_resized(node.arguments, arguments, ())),
    )


def _resized(before: Any, after: Any, path: tuple[int, ...]) -> Iterator[Resize]:
    for place, (old, new) in enumerate(zip(before, after, strict=True)):
        if isinstance(old, list):
            yield from _resized(old, new, (*path, place))
        elif isinstance(old, Edge) and (tuple(new.shape) != old.sizes):
            yield Resize((*path, place), tuple(new.shape), tuple(new.stride()))
