"""The precision of float32 products that is set, in torch.set_float32_matmul_precision's words."""

from torch_tpu import _C

WORDS = ("highest", "high", "medium")  # in the order of the extension's numbers


def matmul_precision() -> str:
    """What PyTorch's own getter says, but where its older and newer settings are mixed, too."""
    return WORDS[_C.matmul_precision()]
