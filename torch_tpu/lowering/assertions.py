"""What captured graphs assert of sizes, numbers and metadata."""

import jax.numpy as jnp
import torch

from torch_tpu.lowering.checks import check
from torch_tpu.lowering.registry import lowering

aten = torch.ops.aten


@lowering(aten._assert_scalar.default)
def _assert_scalar(self, assert_msg):
    check(jnp.asarray(self) != 0, assert_msg, RuntimeError)


@lowering(aten._functional_assert_scalar.default)
def _functional_assert_scalar(self, assert_msg, dep_token):
    _assert_scalar(self, assert_msg)
    return dep_token


@lowering(aten._assert_tensor_metadata.default)
def _assert_tensor_metadata(a, size=None, stride=None, dtype=None, *, device=None, layout=None):
    """Nothing: it held when the graph was captured, which is for these descriptions alone."""


@lowering(aten.sym_constrain_range.default, aten.sym_constrain_range_for_size.default)
def sym_constrain_range(size, *, min=None, max=None):
    """Nothing: Dynamo told itself."""


@lowering(
    aten._functional_sym_constrain_range.default,
    aten._functional_sym_constrain_range_for_size.default,
)
def _functional_sym_constrain_range(size, min, max, dep_token):
    return dep_token


@lowering(aten._make_dep_token.default)
def _make_dep_token(*, dtype=None, layout=None, device=None, pin_memory=None, memory_format=None):
    return jnp.zeros((), jnp.float32)


@lowering(aten._is_all_true.default)
def _is_all_true(self):
    return jnp.all(self)


@lowering(aten._is_any_true.default)
def _is_any_true(self):
    return jnp.any(self)
