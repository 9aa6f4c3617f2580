"""torch's higher-order operators on tpu, where torch lists the devices that it knows.

Needed eagerly too: what torch.compile records for activation checkpoints, conditions, loops and
flex attention runs as these operators under every backend.
"""

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import _ops
from torch._C import DispatchKey
from torch._higher_order_ops.flex_attention import flex_attention as flex_operator
from torch._higher_order_ops.flex_attention import flex_attention_autocast_cuda
from torch._higher_order_ops.utils import registered_hop_fake_fns
from torch._prims import rng_prims
from torch.nn.attention import flex_attention

from torch_tpu.accelerator import random

Function = Callable[..., Any]

_AUTOCAST = DispatchKey.AutocastPrivateUse1  # type: ignore[attr-defined]


def support_tpu() -> None:
    """Installs all of the below."""
    _pass_autocast()
    _keep_random_states()
    _allow_flex_attention()


def _pass_autocast() -> None:
    """Operators take their tensors as they are, as under CUDA's autocast; those made later too."""
    _ops._HIGHER_ORDER_OP_DEFAULT_FALLTHROUGH_DISPATCH_KEYS.append(_AUTOCAST)
    for operator in _ops._higher_order_ops.values():
        operator.fallthrough(_AUTOCAST)


def _run_and_save(op: Function, *args: Any, **kwargs: Any) -> tuple[torch.Tensor, Any]:
    return random.get_rng_state(), op(*args, **kwargs)


def _run_with(state: torch.Tensor, op: Function, *args: Any, **kwargs: Any) -> Any:
    current = random.get_rng_state()
    random.set_rng_state(state)
    try:
        return op(*args, **kwargs)
    finally:
        random.set_rng_state(current)


def _keep_random_states() -> None:
    """A checkpoint's recomputation draws the numbers that its forward pass drew."""
    save, use = rng_prims.run_and_save_rng_state, rng_prims.run_with_rng_state
    # The fake one of torch's own asks the table that lacks tpu.
    registered_hop_fake_fns[save] = _select(save, 1, _run_and_save)
    _select(use, 2, _run_with)


def _select(operator: Any, skipped: int, run: Function) -> Function:
    """``run`` for calls on tpu, what torch has for others; the first arguments are not the op's."""
    other = operator.py_kernels.pop(DispatchKey.BackendSelect)

    @operator.py_impl(DispatchKey.BackendSelect)
    def select(*args: Any, **kwargs: Any) -> Any:
        on_tpu = rng_prims.get_device(args[skipped:], kwargs) == "tpu"
        return (run if on_tpu else other)(*args, **kwargs)

    return select


def _allow_flex_attention() -> None:
    """On any tpu, with its inputs in autocast's dtype."""

    @flex_operator.py_impl(_AUTOCAST)
    def cast(*args: Any, **kwargs: Any) -> Any:
        with torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(_AUTOCAST)):
            return flex_attention_autocast_cuda(*args, **kwargs)

    validate = flex_attention._validate_device

    @functools.wraps(validate)
    def _validate_device(query: Any, key: Any, value: Any) -> None:
        if query.device.type != "tpu":
            validate(query, key, value)

    flex_attention._validate_device = _validate_device
