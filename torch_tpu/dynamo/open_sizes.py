"""A graph's open sizes at a call: their bounds, padded arguments, the sizes of the outputs."""

from __future__ import annotations

import functools
import logging
from typing import Any

import torch

from torch_tpu import _C
from torch_tpu.compiler import store
from torch_tpu.compiler.node import Dims
from torch_tpu.dynamo.graph import Graph, Size
from torch_tpu.dynamo.options import Options
from torch_tpu.dynamo.padding import Padding, padding_of
from torch_tpu.dynamo.signature import Signature, open_sizes
from torch_tpu.dynamo.symbols import Symbols, Values, largest

_log = logging.getLogger("torch_tpu")


class OpenSizes:
    """What the runner of a graph with open sizes needs besides the graph."""

    def __init__(self, graph: Graph, signature: Signature, options: Options):
        self.graph = graph
        self.signature = signature
        self.symbols = Symbols(graph)
        self.exact: frozenset[str] | None = None  # the first call's sizes find them
        self._bucket = options.bucket
        self._padding = [(place, padding_of(graph.inputs[place])) for place in signature.padded]
        self._dims = functools.cache(self._find_dims)
        self.of_outputs = self.symbols.evaluator(open_sizes(signature.results))

    def _find_exact(self, values: Values) -> frozenset[str]:
        """The symbols that must be numbers, because an op can't run at a bound.

        A trace finds them, of a program for a call with these values: sizes of any other call may
        not fit together.
        """

        def find() -> dict[str, tuple[str, int]]:
            from torch_tpu.dynamo import tracing

            return tracing.exact_symbols(
                self.graph,
                self.signature,
                lambda exact: self._apart(self.symbols.bounds(values, exact, self._bucket), exact),
            )

        found: dict[str, tuple[str, int]] = store.answer(
            b"exact:" + self.graph.digest, "sizes that must be exact", find
        )
        for name, (op, place) in found.items():
            site = self.graph.nodes[place].site
            _log.warning(
                "torch_tpu: a program is made for every value of the size %s, because %s%s can't "
                "run at a bound",
                name,
                op,
                f" at {site}" if site.file else "",
            )
        return frozenset(found)

    def _apart(self, bounds: Values, exact: frozenset[str]) -> Values:
        """Other bounds of what isn't exact, of which no two are equal by chance."""
        return tuple(
            bound if name in exact else (1 + place) * bound + place * bool(bound)
            for place, (name, bound) in enumerate(zip(self.symbols.names, bounds, strict=True))
        )

    def bounds(self, values: Values) -> Values:
        """The bound of each symbol in a call with these values."""
        if self.exact is None:
            self.exact = self._find_exact(values)
        return self.symbols.bounds(values, self.exact, self._bucket)

    def _find_dims(self, bounds: Values) -> list[Dims]:
        """The dims of each padded argument's value."""
        return [
            padding.dims(largest(padding.sizes, self.symbols.names, bounds, self.exact or ()))
            for _, padding in self._padding
        ]

    def integer(self, size: Size, values: Values) -> int:
        """A size, or an expression of sizes, in a call with these values."""
        return size if isinstance(size, int) else self.symbols.evaluator([size])(values)[0]

    def pad(self, arguments: list[Any], bounds: Values) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Give the arguments with open sizes values of the dims that the program takes.

        Returns those that the program will write in another's place, each with the other.
        """
        replaced = []
        for (place, padding), dims in zip(self._padding, self._dims(bounds), strict=True):
            argument = arguments[place]
            arguments[place] = padded(argument, padding, dims)
            if arguments[place] is not argument and place in self.signature.writes:
                replaced.append((argument, arguments[place]))
        return replaced


def padded(tensor: torch.Tensor, padding: Padding, dims: tuple[int, ...]) -> torch.Tensor:
    """The tensor, or one like it, packed at the front of a value of these dims.

    A program's own results are so already. Others go through the host, as no program of their own
    size should be needed; a tensor that has its storage for itself keeps the longer value. One that
    a part on the host made enters the device here.
    """
    is_packed = not tensor.is_cpu and _is_packed(tensor, padding)
    if is_packed and tensor.storage_offset() == 0 and _C.value_dims(tensor) == dims:
        return tensor
    host = tensor.detach().cpu().permute(padding.order).contiguous()
    longer = torch.zeros(dims, dtype=host.dtype)
    longer.view(-1)[: host.numel()] = host.view(-1)
    if not is_packed or tensor.numel() * tensor.itemsize != tensor.untyped_storage().nbytes():
        back = [padding.order.index(dim) for dim in range(tensor.dim())]
        device = "tpu" if tensor.is_cpu else tensor.device
        tensor = torch.empty(host.shape, dtype=host.dtype, device=device).permute(back)
    _C.store_value(tensor, longer)
    return tensor


def _is_packed(tensor: torch.Tensor, padding: Padding) -> bool:
    expected, sizes, strides = 1, tensor.shape, tensor.stride()
    for dim in reversed(padding.order):
        if sizes[dim] != 1 and strides[dim] != expected:
            return False
        expected *= sizes[dim]
    return True
