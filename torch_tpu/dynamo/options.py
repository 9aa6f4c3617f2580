"""What torch.compile(options={...}) may say to the tpu backend."""

from __future__ import annotations

import dataclasses
from typing import Any


@dataclasses.dataclass(frozen=True)
class Options:
    """Options of one torch.compile call."""

    def key(self) -> tuple[Any, ...]:
        """What programs depend on."""
        return ()
