"""PyTorch's primitives that captured graphs name; the others run through their ATen forms."""

import torch

from torch_tpu.lowering.promotion import cast
from torch_tpu.lowering.registry import lowering

prims = torch.ops.prims
import torch._prims  # noqa: E402  (defines the ops)


@lowering(prims.convert_element_type.default)
def convert_element_type(a, dtype):
    return cast(a, dtype)


@lowering(prims.device_put.default)
def device_put(a, device, non_blocking=False):
    return a
