"""Exported programs as portable StableHLO, for JAX and whatever else reads it.

    program = torch.export.export(model.eval(), (images,))
    artifact = torch_tpu.export.stablehlo(program)
    artifact.save("model.jax")

    outputs = jax.export.deserialize(open("model.jax", "rb").read()).call(images)

Checks of values (an index out of range) raise nothing there: StableHLO has no exceptions.
"""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch
from jax import export as jax_export
from jax._src.interpreters import partial_eval
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, InputKind, OutputKind

from torch_tpu import _C
from torch_tpu.compiler.building import jax_settings
from torch_tpu.dynamo.graph import Graph, Reader, Ref, Symbolic, TensorMeta
from torch_tpu.dynamo.interpreter import State
from torch_tpu.dynamo.symbolic import SymbolicInterpreter
from torch_tpu.lowering import dtypes, registry
from torch_tpu.precision import matmul_precision

Array = Any

_WEIGHTS = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)
_MUTATIONS = (
    OutputKind.BUFFER_MUTATION,
    OutputKind.PARAMETER_MUTATION,
    OutputKind.USER_INPUT_MUTATION,
)


@dataclasses.dataclass(frozen=True)
class StableHLO:
    """A program in StableHLO. It takes arrays in the order of ``inputs`` and gives ``outputs``.

    ``inputs`` names weights first, where they are arguments, then the user's in the order of the
    flattened call; ``seed``, two int64, comes last where the program draws random numbers.
    ``outputs`` names the user's, then the buffers and inputs that the program changes.
    """

    exported: jax_export.Exported
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    @property
    def text(self) -> str:
        """The module as MLIR text."""
        return str(self.exported.mlir_module())

    @property
    def bytecode(self) -> bytes:
        """The module as a portable StableHLO artifact (VHLO bytecode)."""
        return bytes(self.exported.mlir_module_serialized)

    def serialize(self) -> bytes:
        """What ``jax.export.deserialize`` reads."""
        return bytes(self.exported.serialize())

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write what ``jax.export.deserialize`` reads."""
        Path(path).write_bytes(self.serialize())


def stablehlo(
    exported_program: ExportedProgram,
    *,
    weights: bool = True,
    platforms: Sequence[str] | None = None,
) -> StableHLO:
    """The StableHLO of an exported program, which may have been exported on any device.

    Parameters and buffers are constants in it, or with ``weights=False`` its first arguments.
    ``platforms`` are JAX's names of what it may run on, by default the platform of the tpu device.
    An op that can't be lowered raises an error that names it and its line.
    """
    lowered = _Lowered(_decomposed(exported_program), weights)
    names = list(platforms or [_C.platform_name()])
    with jax_settings(matmul_precision(), names):
        lowered.draws = lowered.draws and lowered.needs_seed()
        exported = jax_export.export(jax.jit(lowered.call), platforms=names)(*lowered.arguments())
    return StableHLO(exported, lowered.input_names, lowered.output_names)


def _decomposed(program: ExportedProgram) -> ExportedProgram:
    """The program in functional ATen ops, those with a rule kept whole."""
    table = torch.export.default_decompositions()
    registry.load_rules()
    for overload in list(table):
        if registry.find(overload) is not None:
            table.pop(overload)
    return program.run_decompositions(table)


class _Lowered:
    """A program as a function of JAX arrays."""

    def __init__(self, program: ExportedProgram, weights: bool):
        reader = Reader()
        self.program = program
        self.graph: Graph = reader.read(program.graph_module)
        self.draws = self.graph.draws > 0
        self.constants = [dtypes.to_array(each) for each in reader.constants]
        signature = program.graph_signature
        specs = list(signature.input_specs)
        self.specs = specs
        self.fixed = {
            place: self._weight(spec.target)
            for place, spec in enumerate(specs)
            if weights and spec.kind in _WEIGHTS
        }
        self.fixed |= {
            place: spec.arg.value
            for place, spec in enumerate(specs)
            if isinstance(spec.arg, ConstantArgument)
        }
        self.places = [place for place in range(len(specs)) if place not in self.fixed]
        self.results = [
            (place, spec)
            for kinds in ((OutputKind.USER_OUTPUT, OutputKind.LOSS_OUTPUT), _MUTATIONS)
            for place, spec in enumerate(signature.output_specs)
            if spec.kind in kinds and isinstance(self.graph.outputs[place], Ref)
        ]

    @property
    def input_names(self) -> tuple[str, ...]:
        named = [self.specs[place] for place in self.places]
        names = [spec.target if spec.kind in _WEIGHTS else spec.arg.name for spec in named]
        return (*names, "seed") if self.draws else tuple(names)

    @property
    def output_names(self) -> tuple[str, ...]:
        return tuple(spec.target or spec.arg.name for _, spec in self.results)

    def call(self, *arguments: Array) -> list[Array]:
        """The user's outputs, then what is changed."""
        values = [self.fixed.get(place) for place in range(len(self.specs))]
        for place, argument in zip(self.places, arguments, strict=False):
            values[place] = argument
        seed, offset = arguments[-1] if self.draws else np.zeros(2, np.int64)
        state = State(seed, offset, self._sizes(values))
        results = SymbolicInterpreter(self.graph, state).run(values + self.constants)
        return [jnp.asarray(results[place]) for place, _ in self.results]

    def needs_seed(self) -> bool:
        """Whether random numbers are used: attention without dropout could draw, and doesn't."""
        traced = jax.make_jaxpr(self.call)(*self.arguments()).jaxpr
        _, used = partial_eval.dce_jaxpr(traced, [True] * len(traced.outvars))
        return used[-1]

    def arguments(self) -> list[jax.ShapeDtypeStruct]:
        """The arguments' shapes, open sizes as JAX's symbolic ones."""
        scope = jax_export.SymbolicScope(list(self._constraints()))
        metas = [self.graph.inputs[place] for place in self.places]
        shapes = [_shape(meta, scope) for meta in metas]
        if self.draws:
            shapes.append(jax.ShapeDtypeStruct((2,), jnp.int64))
        return shapes

    def _constraints(self) -> Iterator[str]:
        names = self.graph.symbols()
        for symbol, known in self.program.range_constraints.items():
            if str(symbol) in names:
                if known.lower.is_Integer:
                    yield f"{symbol} >= {known.lower}"
                if known.upper.is_Integer:
                    yield f"{symbol} <= {known.upper}"

    def _sizes(self, values: list[Array]) -> dict[str, Any]:
        """The value of each symbol, from the arrays that show it."""
        found: dict[str, Any] = {}
        for value, meta in zip(values, self.graph.inputs, strict=False):
            if isinstance(meta, TensorMeta):
                found |= {
                    size: dim
                    for size, dim in zip(meta.sizes, value.shape, strict=True)
                    if size in self._symbols
                }
        return found

    @functools.cached_property
    def _symbols(self) -> set[str]:
        return self.graph.symbols()

    def _weight(self, name: str) -> np.ndarray:
        held = (self.program.state_dict, self.program.constants)
        return dtypes.to_array(next(each[name] for each in held if name in each))


def _shape(meta: Any, scope: jax_export.SymbolicScope) -> jax.ShapeDtypeStruct:
    if isinstance(meta, TensorMeta):
        text = ", ".join(map(_dimension, meta.sizes))
        sizes = jax_export.symbolic_shape(text, scope=scope) if text else ()
        return jax.ShapeDtypeStruct(sizes, dtypes.to_jax(meta.dtype))
    kinds = {"bool": jnp.bool_, "int": jnp.int64, "float": jnp.float64}
    return jax.ShapeDtypeStruct((), kinds["int" if isinstance(meta, Symbolic) else meta])


def _dimension(size: int | str) -> str:
    """A size as JAX writes it."""
    text = str(size).replace("**", "^").replace("//", " floordiv ")
    return text.replace("FloorDiv", "floordiv").replace("Mod", "mod")
