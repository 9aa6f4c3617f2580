"""What GradScaler asks of the device."""

import jax.numpy as jnp
import torch

from torch_tpu.lowering import dtypes
from torch_tpu.lowering.promotion import cast, promote
from torch_tpu.lowering.registry import lowering

aten = torch.ops.aten


@lowering(aten._amp_foreach_non_finite_check_and_unscale.default)
def _amp_foreach_non_finite_check_and_unscale(self, found_inf, inv_scale):
    bad = [jnp.any(~jnp.isfinite(x)) for x in self]
    found_inf = jnp.where(jnp.any(jnp.array(bad, bool)), 1, found_inf)
    return [_unscaled(x, inv_scale) for x in self], found_inf


def _unscaled(x, inv_scale):
    (wide,) = promote(x)
    return wide * cast(jnp.reshape(inv_scale, ()), dtypes.to_torch(wide.dtype))


@lowering(aten._amp_update_scale.default)
def _amp_update_scale(
    self, growth_tracker, found_inf, scale_growth_factor, scale_backoff_factor, growth_interval
):
    overflow = found_inf != 0
    successes = growth_tracker + 1
    grows = successes == growth_interval
    grown = self * scale_growth_factor
    raised = jnp.where(grows & jnp.isfinite(grown), grown, self)
    scale = jnp.where(overflow, self * scale_backoff_factor, raised)
    return scale, jnp.where(overflow | grows, 0, successes)
