"""Mixed precision under torch.cuda.amp's names; torch.autocast("tpu") is the same thing."""

import functools
from typing import Any

import torch

custom_fwd = functools.partial(torch.amp.custom_fwd, device_type="tpu")
custom_bwd = functools.partial(torch.amp.custom_bwd, device_type="tpu")


class autocast(torch.autocast):
    """torch.autocast for tpu; bfloat16 unless another dtype is named."""

    def __init__(
        self,
        enabled: bool = True,
        dtype: torch.dtype = torch.bfloat16,
        cache_enabled: bool = True,
    ) -> None:
        super().__init__("tpu", dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)


class GradScaler(torch.amp.GradScaler):
    """torch.amp.GradScaler for tpu. Needed for float16 only: bfloat16 has float32's range."""

    def __init__(self, **options: Any) -> None:
        super().__init__("tpu", **options)
