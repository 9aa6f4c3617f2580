"""The StableHLO that a rule becomes for a TPU, which need not be there."""

import jax
import torch
from jax import export

from torch_tpu.compiler.building import jax_settings
from torch_tpu.lowering import dtypes, registry

# Custom calls that JAX makes for TPUs and doesn't promise to keep.
_CALLS = ("LuDecomposition", "QrDecomposition", "ProductOfElementaryHouseholderReflectors", "Eigh")
_UNCHECKED = [export.DisabledSafetyCheck.custom_call(name) for name in _CALLS]


def lowered(precision, op, *args):
    """The text of a call's program."""
    places = [place for place, arg in enumerate(args) if isinstance(arg, torch.Tensor)]
    shapes = [
        jax.ShapeDtypeStruct(tuple(args[place].shape), dtypes.to_jax(args[place].dtype))
        for place in places
    ]

    def run(*arrays):
        bound = dict(enumerate(args)) | dict(zip(places, arrays, strict=True))
        random = torch.Tag.nondeterministic_seeded in op.tags
        named = {"generator": jax.random.key(0)} if random else {}
        return registry.call(op, tuple(bound.values()), {}, named=named)

    with jax_settings(precision, ["tpu"]):
        return str(
            export.export(jax.jit(run), platforms=["tpu"], disabled_checks=_UNCHECKED)(
                *shapes
            ).mlir_module()
        )
