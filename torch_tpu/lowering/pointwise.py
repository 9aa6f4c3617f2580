"""Element-by-element arithmetic, comparison and selection."""

import torch

from torch_tpu.lowering.promotion import promote
from torch_tpu.lowering.registry import lowering

aten = torch.ops.aten


@lowering(aten.add.Tensor, aten.add.Scalar)
def add(self, other, *, alpha=1):
    self, other, alpha = promote(self, other, alpha)
    return self + alpha * other
