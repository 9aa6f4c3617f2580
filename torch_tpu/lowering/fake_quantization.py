"""Rounding to a quantised grid and back, for quantisation-aware training."""

import jax.numpy as jnp
import torch

from torch_tpu.lowering.promotion import promote
from torch_tpu.lowering.registry import lowering

aten = torch.ops.aten


def _cachemask(self, scale, zero_point, quant_min, quant_max):
    """The values on the grid, and where they lay in its range (where a gradient passes)."""
    (computed,) = promote(self)
    zero_point = zero_point.astype(computed.dtype)
    scale = scale.astype(computed.dtype)
    level = jnp.round(computed * (1 / scale)) + zero_point
    inside = (level >= quant_min) & (level <= quant_max)
    return (jnp.clip(level, quant_min, quant_max) - zero_point) * scale, inside


@lowering(aten.fake_quantize_per_tensor_affine_cachemask.default, runtime=("zero_point",))
def fake_quantize_per_tensor_affine_cachemask(self, scale, zero_point, quant_min, quant_max):
    return _cachemask(self, scale, zero_point, quant_min, quant_max)


@lowering(aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams.default)
def _fake_quantize_per_tensor_affine_cachemask_tensor_qparams(
    self, scale, zero_point, fake_quant_enabled, quant_min, quant_max
):
    scale, zero_point = scale.reshape(-1)[0], zero_point.reshape(-1)[0]
    output, mask = _cachemask(self, scale, zero_point, quant_min, quant_max)
    enabled = fake_quant_enabled.reshape(-1)[0] != 0
    return jnp.where(enabled, output, self.astype(output.dtype)), mask | ~enabled


@lowering(aten.fake_quantize_per_channel_affine_cachemask.default)
def fake_quantize_per_channel_affine_cachemask(self, scale, zero_point, axis, quant_min, quant_max):
    shape = [1] * self.ndim
    shape[axis] = -1
    return _cachemask(self, scale.reshape(shape), zero_point.reshape(shape), quant_min, quant_max)
