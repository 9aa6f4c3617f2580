"""Tensors that numbers alone decide: windows and frequencies, worked out while tracing."""

import functools

import jax.numpy as jnp
import torch
from torch.utils._python_dispatch import _disable_current_modes

from torch_tpu.lowering.registry import lowering

aten = torch.ops.aten

_NUMBERS = ("d", "alpha", "beta")


def _worked_out(op, *numbers, dtype=None, layout=None, device=None, pin_memory=None):
    with _disable_current_modes():
        return jnp.asarray(op(*numbers, dtype=dtype, device="cpu").numpy())


for _packet in (
    aten.bartlett_window,
    aten.blackman_window,
    aten.hamming_window,
    aten.kaiser_window,
    aten.fft_fftfreq,
    aten.fft_rfftfreq,
):
    for _name in _packet.overloads():
        _op = getattr(_packet, _name)
        if not any(argument.is_out for argument in _op._schema.arguments):
            lowering(_op, static=_NUMBERS)(functools.partial(_worked_out, _op))
