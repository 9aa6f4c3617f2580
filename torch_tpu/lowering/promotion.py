"""PyTorch's type promotion, over traced arrays.

A weakly typed 0-d array (or a Python number) is what PyTorch calls a wrapped number: it takes
part with its category only. A strongly typed 0-d array is a 0-dim tensor.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import torch

from torch_tpu.lowering import dtypes, sizes

_BOOL, _INT, _FLOAT, _COMPLEX = range(4)


def _category(dtype: torch.dtype) -> int:
    if dtype.is_complex:
        return _COMPLEX
    if dtype.is_floating_point:
        return _FLOAT
    return _BOOL if dtype == torch.bool else _INT


def _of_number(value: Any) -> torch.dtype:
    """What a wrapped number contributes: its category's default dtype."""
    if not isinstance(value, (bool, int, float, complex)):
        value = {"b": False, "i": 0, "u": 0, "f": 0.0, "c": 0j}[jnp.dtype(value.dtype).kind]
    if isinstance(value, bool):
        return torch.bool
    if isinstance(value, int):
        return torch.int64
    if isinstance(value, float):
        return torch.get_default_dtype()
    return torch.complex128 if torch.get_default_dtype() == torch.float64 else torch.complex64


def is_wrapped_number(operand: Any) -> bool:
    """True for a Python number and for a weakly typed 0-d array."""
    if isinstance(operand, (bool, int, float, complex)):
        return True
    return jnp.ndim(operand) == 0 and getattr(operand, "weak_type", False)


def result_type(*operands: Any) -> torch.dtype:
    """torch.result_type over any number of arrays and numbers."""
    ranked: list[torch.dtype | None] = [None, None, None]  # dimensioned, 0-dim, wrapped
    for operand in operands:
        if is_wrapped_number(operand):
            rank, dtype = 2, _of_number(operand)
        else:
            rank, dtype = (0 if jnp.ndim(operand) else 1), dtypes.to_torch(operand.dtype)
        ranked[rank] = dtype if ranked[rank] is None else torch.promote_types(ranked[rank], dtype)
    result = None
    for dtype in ranked:
        if dtype is None:
            continue
        if result is None or _category(dtype) > _category(result):
            result = dtype if result is None else _lift(result, dtype)
    assert result is not None
    return result


def _lift(dtype: torch.dtype, higher: torch.dtype) -> torch.dtype:
    """The dtype of a higher category met by a lower-priority operand."""
    if higher.is_complex and dtype.is_floating_point:
        # float64 tensor with a complex number: complex128, not the default complex64.
        return torch.promote_types(dtype, torch.complex64)
    return higher


def cast(operand: Any, dtype: torch.dtype) -> jax.Array:
    """The operand as a strongly typed array of a torch dtype, converted as PyTorch does."""
    target = dtypes.to_jax(dtype)
    array = jnp.asarray(operand)
    if jnp.iscomplexobj(array) and not (dtype.is_complex or dtype == torch.bool):
        array = sizes.like(array.real, array)
    return sizes.converted(array, target)


def promote(*operands: Any, to_float: bool = False) -> tuple[jax.Array, ...]:
    """The operands cast to their common dtype, widened to the dtype that PyTorch computes in.

    ``to_float`` sends integers and bools to the default floating dtype (as ``sin``, ``div`` do).
    None operands stay None. The result need not be rounded back: whoever runs the rule rounds
    it to the dtype that PyTorch promises for the call.
    """
    dtype = result_type(*(operand for operand in operands if operand is not None))
    if to_float and not (dtype.is_floating_point or dtype.is_complex):
        dtype = torch.get_default_dtype()
    compute = dtypes.opmath(dtype)
    return tuple(None if operand is None else cast(operand, compute) for operand in operands)
