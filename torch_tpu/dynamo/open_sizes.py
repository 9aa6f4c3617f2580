"""A graph's open sizes at a call: their bounds, padded arguments, the sizes of the outputs."""

from __future__ import annotations

import functools
import logging
from typing import Any

import torch

from torch_tpu import _C
from torch_tpu.compiler import store
from torch_tpu.dynamo.graph import Graph
from torch_tpu.dynamo.options import Options
from torch_tpu.dynamo.program import Padding, Signature, open_sizes, padding_of, results_of
from torch_tpu.dynamo.symbols import Symbols, Values

_log = logging.getLogger("torch_tpu")


class OpenSizes:
    """What the runner of a graph with open sizes needs besides the graph."""

    def __init__(self, graph: Graph, signature: Signature, options: Options):
        self.graph = graph
        self.signature = signature
        self.symbols = Symbols(graph)
        self._bucket = options.bucket
        self._padding = {place: padding_of(graph.inputs[place]) for place in signature.padded}
        self.of_outputs = self.symbols.evaluator(open_sizes(results_of(graph, signature)))

    @functools.cached_property
    def exact(self) -> frozenset[str]:
        """The symbols that must be numbers, because an op can't run at a bound."""
        found: dict[str, str] = store.answer(
            b"exact:" + self.graph.digest, "sizes that must be exact", self._find_exact
        )
        for name, reason in found.items():
            _log.warning(
                "torch_tpu: a program is made for every value of the size %s, because %s",
                name,
                reason,
            )
        return frozenset(found)

    def _find_exact(self) -> dict[str, str]:
        from torch_tpu.dynamo import tracing

        return tracing.exact_symbols(self.graph, self.signature)

    def bounds(self, values: Values) -> Values:
        """The bound of each symbol in a call with these values."""
        return self.symbols.bounds(values, self.exact, self._bucket)

    def integer(self, expression: str, values: Values) -> int:
        """An expression of the sizes in a call with these values."""
        return self.symbols.evaluator([expression])(values)[0]

    def pad(self, arguments: list[Any], bounds: Values) -> None:
        """Give the arguments with open sizes values of the dims that the program takes."""
        named = dict(zip(self.symbols.names, bounds, strict=True))
        for place, padding in self._padding.items():
            arguments[place] = padded(arguments[place], padding, padding.dims(named))


def padded(tensor: torch.Tensor, padding: Padding, dims: tuple[int, ...]) -> torch.Tensor:
    """The tensor, or one like it, packed at the front of a value of these dims.

    A program's own results are so already. Others go through the host, as no program of their own
    size should be needed; a tensor that has its storage for itself keeps the longer value.
    """
    if (
        tensor.storage_offset() == 0
        and _C.value_dims(tensor) == dims
        and _is_packed(tensor, padding)
    ):
        return tensor
    host = tensor.detach().cpu().permute(padding.order).contiguous()
    longer = torch.zeros(dims, dtype=host.dtype)
    longer.view(-1)[: host.numel()] = host.view(-1)
    if tensor.numel() * tensor.itemsize != tensor.untyped_storage().nbytes() or not _is_packed(
        tensor, padding
    ):
        back = [padding.order.index(dim) for dim in range(tensor.dim())]
        tensor = host.to(tensor.device).permute(back)
    _C.store_value(tensor, longer)
    return tensor


def _is_packed(tensor: torch.Tensor, padding: Padding) -> bool:
    expected, sizes, strides = 1, tensor.shape, tensor.stride()
    for dim in reversed(padding.order):
        if sizes[dim] != 1 and strides[dim] != expected:
            return False
        expected *= sizes[dim]
    return True
