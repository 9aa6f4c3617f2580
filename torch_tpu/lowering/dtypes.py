"""torch.dtype <-> JAX dtype, and the dtype that arithmetic on a dtype is done in."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import torch
from jax import lax

_NAMES = {
    torch.bool: "bool_",
    torch.uint8: "uint8",
    torch.uint16: "uint16",
    torch.uint32: "uint32",
    torch.uint64: "uint64",
    torch.int8: "int8",
    torch.int16: "int16",
    torch.int32: "int32",
    torch.int64: "int64",
    torch.float16: "float16",
    torch.bfloat16: "bfloat16",
    torch.float32: "float32",
    torch.float64: "float64",
    torch.complex64: "complex64",
    torch.complex128: "complex128",
    torch.float8_e4m3fn: "float8_e4m3fn",
    torch.float8_e5m2: "float8_e5m2",
    torch.float8_e4m3fnuz: "float8_e4m3fnuz",
    torch.float8_e5m2fnuz: "float8_e5m2fnuz",
}
_TO_JAX = {dtype: np.dtype(getattr(jnp, name)) for dtype, name in _NAMES.items()}
_TO_TORCH = {jax_dtype: dtype for dtype, jax_dtype in _TO_JAX.items()}

# CPU and CUDA PyTorch compute on these in float32 ("opmath") and round once at the end.
_NARROW = {
    torch.float16,
    torch.bfloat16,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
    torch.float8_e4m3fnuz,
    torch.float8_e5m2fnuz,
}


def to_jax(dtype: torch.dtype) -> np.dtype:
    """The JAX dtype of a torch dtype; TypeError where XLA has none (complex32, quantised)."""
    try:
        return _TO_JAX[dtype]
    except KeyError:
        raise TypeError(f"tpu tensors can't hold {dtype}: XLA has no such type") from None


def to_torch(dtype: np.dtype) -> torch.dtype:
    """The torch dtype of a JAX dtype."""
    return _TO_TORCH[np.dtype(dtype)]


def opmath(dtype: torch.dtype) -> torch.dtype:
    """float32 for the narrow floating dtypes, else the dtype itself."""
    return torch.float32 if dtype in _NARROW else dtype


_NARROW_INTEGERS = {np.dtype(name) for name in ("int8", "uint8", "int16", "uint16")}


def convert(array: Any, dtype: np.dtype) -> Any:
    """An array in another dtype, by PyTorch's rules.

    What exceeds float8_e4m3fn saturates; what exceeds a narrow integer wraps around, where XLA
    would saturate.
    """
    if dtype == jnp.float8_e4m3fn and dtype != array.dtype:
        wide = array if jnp.issubdtype(array.dtype, jnp.floating) else array.astype(jnp.float32)
        largest = wide.dtype.type(jnp.finfo(dtype).max)
        array = lax.clamp(-largest, wide, largest)
    if dtype in _NARROW_INTEGERS and jnp.issubdtype(array.dtype, jnp.floating):
        array = lax.convert_element_type(array, jnp.int32)
    if dtype == jnp.bool_ and jnp.issubdtype(array.dtype, jnp.complexfloating):
        return array != 0
    return lax.convert_element_type(array, dtype)


def to_array(tensor: torch.Tensor) -> np.ndarray:
    """A tensor's values on the host, in any dtype that XLA has."""
    host = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous()
    if not host.numel():
        return np.empty(tuple(host.shape), to_jax(host.dtype))
    flat = host.reshape(-1).view(torch.uint8).numpy()
    return flat.view(to_jax(host.dtype)).reshape(tuple(host.shape))
