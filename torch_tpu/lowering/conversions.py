"""Copies in another dtype or on another device, which captured graphs alone name."""

import torch

from torch_tpu.lowering.promotion import cast
from torch_tpu.lowering.registry import lowering

aten, prims = torch.ops.aten, torch.ops.prims
import torch._prims  # noqa: E402  (defines the ops)


@lowering(prims.convert_element_type.default)
def convert_element_type(a, dtype):
    return cast(a, dtype)


@lowering(aten._to_copy.default)
def _to_copy(self, *, dtype=None, **placement):
    return self if dtype is None else cast(self, dtype)


@lowering(prims.device_put.default)
def device_put(a, device, non_blocking=False):
    return a
