"""What AOTAutograd gets for a graph: a callable that runs it, and that its cache can keep."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch._inductor.output_code import OutputCode

from torch_tpu import _C
from torch_tpu.dynamo import program
from torch_tpu.dynamo.graph import Graph, Ref, TensorMeta
from torch_tpu.dynamo.options import Options
from torch_tpu.dynamo.program import Binding, GraphProgram, GraphSource, Signature


class CompiledGraph(OutputCode):
    """A graph that runs as one program. Called with a list that it empties."""

    def __init__(
        self, graph: Graph, constants: Sequence[torch.Tensor], options: Options, ordinal: int
    ):
        self.graph = graph
        self.constants = list(constants)
        self.options = options
        self.ordinal = ordinal
        self._prepare()

    def _prepare(self) -> None:
        self._boxed_call = True  # wrappers copy what they find on the instance
        self.signature = signature_of(self.graph)
        self._passed = [
            (place, output.place)
            for place, output in enumerate(self.graph.outputs)
            if isinstance(output, Ref) and output.place < len(self.graph.inputs)
        ]
        self._only_new = self.signature.creates == tuple(range(len(self.graph.outputs)))
        metas = self.graph.inputs
        fits = [
            (meta.sizes, meta.dtype)
            for meta in (self.graph.metas()[output.place] for output in self._new_outputs())
        ]
        tensors = [
            (place in self.signature.writes, (metas[place].sizes, metas[place].dtype) in fits)
            for place in self.signature.tensors
        ]
        self._run = _C.Graph(
            f"graph of {len(self.graph.nodes)} nodes",
            self.signature.kinds,
            tensors,
            self.graph.draws,
            self.ordinal,
            self._make,
        )

    def _new_outputs(self) -> list[Ref]:
        return [self.graph.outputs[place] for place in self.signature.creates]

    def _make(self, bindings: list[tuple[Any, ...]], donated: list[int]) -> GraphProgram:
        return program.make(
            GraphSource(
                self.graph,
                self.signature,
                tuple(Binding(*binding) for binding in bindings),
                tuple(donated),
                self.options,
                self.ordinal,
                torch.get_float32_matmul_precision(),
            )
        )

    def __call__(self, inputs: Sequence[Any]) -> Any:
        arguments = inputs if isinstance(inputs, list) else list(inputs)
        passed = [(place, arguments[source]) for place, source in self._passed]
        arguments += self.constants
        created = self._run(arguments)
        if self._only_new:
            return created
        outputs: list[Any] = [
            None if isinstance(output, Ref) else output for output in self.graph.outputs
        ]
        for place, tensor in zip(self.signature.creates, created, strict=True):
            outputs[place] = tensor
        for place, tensor in passed:
            outputs[place] = tensor
        return outputs

    def prepare_for_serialization(self) -> None:
        """Nothing of this process is pickled."""

    def post_compile(self, *_: Any) -> None:
        """Nothing is left to do after loading."""

    def set_triton_bundle(self, triton_bundle: Any) -> None:
        """There are no Triton kernels."""

    def __getstate__(self) -> dict[str, Any]:
        kept = ("graph", "constants", "options", "ordinal")
        return {name: getattr(self, name) for name in kept}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._prepare()


def signature_of(graph: Graph) -> Signature:
    """What a graph takes and gives."""
    used = {ref.place for node in graph.nodes for ref in node.refs()}
    used |= {output.place for output in graph.outputs if isinstance(output, Ref)}
    kinds = tuple(
        _kind(meta) if place in used else "unused" for place, meta in enumerate(graph.inputs)
    )
    metas = graph.metas()
    return Signature(
        kinds,
        tensors=tuple(place for place, kind in enumerate(kinds) if kind == "tensor"),
        writes=tuple(sorted(graph.written())),
        creates=tuple(
            place
            for place, output in enumerate(graph.outputs)
            if isinstance(output, Ref)
            and output.place >= len(graph.inputs)
            and isinstance(metas[output.place], TensorMeta)
        ),
    )


def _kind(meta: Any) -> str:
    if not isinstance(meta, TensorMeta):
        return {"bool": "int"}.get(meta, meta)
    if meta.device != "cpu" or meta.sizes:
        return "tensor"
    if meta.dtype.is_complex:
        return "complex"
    return "float" if meta.dtype.is_floating_point else "int"
