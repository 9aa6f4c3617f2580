"""Tensors are printed from a copy on the host.

torch formats a tensor with some fifty small ops on its device, by size and by value: on a device
that compiles each, the first print would take seconds. For XLA, MTIA and IPU torch itself copies
first; tpu is not in that list.
"""

import functools
from typing import Any

from torch import _tensor_str


def format_on_the_host() -> None:
    """Installs the copy before the one function of torch that formats values."""
    format_values = _tensor_str._tensor_str

    @functools.wraps(format_values)
    def from_the_host(self: Any, indent: int) -> str:
        return format_values(self.cpu() if self.device.type == "tpu" else self, indent)

    _tensor_str._tensor_str = from_the_host
