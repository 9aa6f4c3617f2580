"""A mistake made on two devices: the same exception, the same words."""

import re
import warnings
from collections.abc import Callable

import torch

Mistake = Callable[[str], object]

_DEVICE = re.compile(r"\btpu(:0)?\b")
_TYPE = re.compile(r"\btpu(\w+)Type\b")  # what Tensor.type() calls a type of a device


def raised(mistake: Mistake, device: str) -> tuple[type, str] | None:
    """The type and words of what a mistake raises, with the device's name taken out."""
    torch.manual_seed(0)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            mistake(device)
        if device == "tpu":
            torch.tpu.synchronize()
    except Exception as error:  # its type is what is compared
        message = str(error).split("\nException raised from")[0]
        return type(error), _DEVICE.sub("cpu", _TYPE.sub(r"torch.\1Tensor", message))
    return None


def assert_same_refusal(mistake: Mistake) -> None:
    """CPU PyTorch refuses it, and tpu refuses it in the same words."""
    expected = raised(mistake, "cpu")
    assert expected is not None, "CPU PyTorch accepts this"
    refused = raised(mistake, "tpu")
    assert refused == expected, f"\ncpu {expected}\ntpu {refused}"
