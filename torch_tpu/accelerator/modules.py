"""Keeps a parameter the same object when its module moves to or from tpu.

On CUDA, ``Module.to`` assigns ``param.data``, so weights that two modules share stay shared and an
optimizer made before keeps its parameters. torch decides that by a fixed list of device types
without PrivateUse1, and for others makes a new Parameter per module, which unties them. The
switch ``torch.__future__.set_swap_module_params_on_conversion`` would mend it, but changes every
device and refuses parameters with weak references. So only a parameter that crosses between tpu
and another device is handled here, inside the function that ``Module._apply`` maps over a module.
"""

import functools
import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

Function = Callable[[torch.Tensor], torch.Tensor]


class _Move:
    """A conversion that keeps the identity of the parameters it moves to or from tpu.

    ``replaced`` holds, by id of the old parameter, the old and the new one where a weak reference
    forbids swapping; modules that share the old one then share the new one.
    """

    def __init__(self, convert: Function) -> None:
        self.convert = convert
        self.replaced: dict[int, tuple[nn.Parameter, nn.Parameter]] = {}

    def __call__(self, tensor: torch.Tensor) -> torch.Tensor:
        converted = self.convert(tensor)
        if not _crosses(tensor, converted) or weakref.getweakrefs(tensor):
            return converted
        _swap(tensor, converted, self.convert)
        return tensor

    def share_replacements(self, module: nn.Module, before: dict[str, Any]) -> None:
        for name, old in before.items():
            new = module._parameters[name]
            if new is not None and new is not old:
                kept = self.replaced.setdefault(id(old), (old, new))
                module._parameters[name] = kept[1]


def _crosses(tensor: torch.Tensor, converted: torch.Tensor) -> bool:
    """Whether torch would replace this parameter, and only because one side is a tpu."""
    return (
        isinstance(tensor, nn.Parameter)
        and tensor.device.type != converted.device.type
        and "tpu" in (tensor.device.type, converted.device.type)
        and not any(is_traceable_wrapper_subclass(each) for each in (tensor, converted))
        and not any(isinstance(each, _fake_tensor()) for each in (tensor, converted))
        and not torch.__future__.get_overwrite_module_params_on_conversion()
        and not torch.__future__.get_swap_module_params_on_conversion()
    )


@functools.cache
def _fake_tensor() -> type:
    from torch._subclasses.fake_tensor import FakeTensor

    return FakeTensor


def _swap(parameter: nn.Parameter, converted: torch.Tensor, convert: Function) -> None:
    """Gives the parameter the converted tensor, and converts its gradient."""
    gradient = parameter.grad
    parameter.grad = None  # a held gradient would forbid the swap
    # Swapping exchanges class and attributes too: equal ones on both sides stay what they are.
    replacement = torch.Tensor._make_subclass(type(parameter), converted, parameter.requires_grad)
    replacement.__dict__.update(parameter.__dict__)
    try:
        torch.utils.swap_tensors(parameter, replacement)
    except Exception:
        parameter.grad = gradient
        raise
    if gradient is not None:
        parameter.grad = convert(gradient).requires_grad_(gradient.requires_grad)


def keep_parameters_in_place() -> None:
    """Installs the above into nn.Module."""
    apply = nn.Module._apply

    @functools.wraps(apply)
    def _apply(self: nn.Module, fn: Function, recurse: bool = True) -> nn.Module:
        move = fn if isinstance(fn, _Move) else _Move(fn)
        before = dict(self._parameters)
        result = apply(self, move, recurse)
        move.share_replacements(self, before)
        return result

    nn.Module._apply = _apply  # type: ignore[method-assign]
