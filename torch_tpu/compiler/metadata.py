"""What a call returns and what it refuses: CPU PyTorch's answer, asked once per program.

The op itself runs on the CPU over stand-ins of the same shapes where that is cheap; it knows its
errors best. Where it would be slow, or reads values that stand-ins can't have, PyTorch's meta
kernels answer.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from torch_tpu.compiler.node import Created, Edge, Node, Number, Resize

aten = torch.ops.aten

# Work that grows faster than the tensors do is cheap for small ones only.
_CHEAP_ELEMENTS, _CHEAP_SUPERLINEAR = 1 << 22, 1 << 14
_SUPERLINEAR = (
    "mm", "bmm", "addmm", "baddbmm", "convolution", "linalg_", "_linalg_", "cdist", "_cdist",
    "ormqr", "geqrf", "cholesky", "lu_", "attention", "_conv", "grid_sampler", "_ctc", "ctc",
    "upsample", "_upsample", "einsum", "_trilinear", "pdist", "_pdist", "median", "sort", "mode",
    "kthvalue", "embedding_bag", "_embedding_bag", "triangular_solve", "matrix_exp", "householder",
)  # fmt: skip

# Their CPU kernels look at values that stand-ins don't have.
_READS_VALUES = (
    "multinomial", "_assert_async", "segment_reduce", "_segment_reduce_backward", "histogram",
    "_linalg_check_errors", "binomial", "_ctc_loss", "_ctc_loss_backward", "embedding_bag",
    "max_unpool2d", "max_unpool3d", "_cholesky_solve_helper", "cholesky", "lu_unpack",
    "linalg_lu_solve", "masked_scatter",
)  # fmt: skip


# Their CPU kernels refuse a matrix of ones, which lacks rank.
_WANTS_RANK = ("aten::linalg_lstsq",)

# How PyTorch words that the CPU has no kernel at all.
_NO_CPU_KERNEL = ("Could not run", "operator for privateuse1 backends")


@dataclasses.dataclass(frozen=True)
class Metadata:
    """``returns`` as in Plan; ``created`` without the dims of their values."""

    created: list[Created]
    returns: list[Any]
    resizes: list[Resize]


def infer(node: Node) -> Metadata:
    """Run PyTorch's own answer for a call. Raises what CPU PyTorch raises for it."""
    with _quiet_dispatch():
        name = node.overload._schema.name.split("::")[1]
        if _reads_values(name):
            return _first_answer(node, "meta", "cpu")
        if _is_cheap(node, name):
            return _first_answer(node, "cpu", "meta")
        return _large(node)


def _reads_values(name: str) -> bool:
    return name.rstrip("_") in _READS_VALUES


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
        try:
            return _run(node, "meta")
        except Exception:  # noqa: BLE001  # whatever it was, the CPU kernel says it better
            return _run(node, "cpu")
    return _first_answer(node, "cpu", "meta")  # mixed dtypes: meta kernels let too much pass


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
    ):
        yield
    if not torch.equal(state, torch.random.get_rng_state()):
        torch.random.set_rng_state(state)


def _stand_in(device: str) -> Callable[[Any], Any]:
    def build(argument: Any) -> Any:
        if isinstance(argument, list):
            return [build(item) for item in argument]
        if isinstance(argument, Edge):
            return _stand_in_tensor(argument, device)
        if isinstance(argument, Number):
            return _stand_in_number(argument)
        return argument

    return build


def _stand_in_tensor(edge: Edge, device: str) -> torch.Tensor:
    """Ones, so that they divide and normalise; zeros for integers, so that they index."""
    whole = 1 + sum((n - 1) * s for n, s in zip(edge.sizes, edge.strides, strict=True))
    length = 0 if 0 in edge.sizes else whole
    fill = 1 if edge.dtype.is_floating_point or edge.dtype == torch.bool else 0
    if device == "meta" or not fill:
        storage = torch.zeros(length, dtype=edge.dtype, device=device)
    else:
        storage = torch.ones(length, dtype=torch.float32, device=device).to(edge.dtype)
    tensor = storage.as_strided(edge.sizes, edge.strides)
    tensor = torch._neg_view(tensor) if edge.neg else tensor
    return torch._conj(tensor) if edge.conj else tensor


def _stand_in_number(number: Number) -> Any:
    # Integers ascend, so that a range between two of them isn't empty.
    ascending = number.place + 1
    value = {"bool": True, "int": 1, "float": 0.5, "complex": 0.5 + 0j}[number.kind]
    if number.dtype is None or number.wrapped:
        return value  # a tensor argument takes a Python number as a wrapped one
    return torch.tensor(value, dtype=number.dtype, device="cpu")


def _run(node: Node, device: str) -> Metadata:
    overload = node.overload
    arguments = [_stand_in(device)(argument) for argument in node.arguments]
    if overload._schema.name in _WANTS_RANK and device == "cpu":
        arguments[0].diagonal(dim1=-2, dim2=-1).add_(1)
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

    return Metadata(created, [describe(result) for result in results], list(_resized(node.arguments, arguments, ())))


def _resized(before: Any, after: Any, path: tuple[int, ...]) -> Iterator[Resize]:
    for place, (old, new) in enumerate(zip(before, after, strict=True)):
        if isinstance(old, list):
            yield from _resized(old, new, (*path, place))
        elif isinstance(old, Edge) and (tuple(new.shape) != old.sizes):
            yield Resize((*path, place), tuple(new.shape), tuple(new.stride()))
