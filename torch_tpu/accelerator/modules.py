"""Keeps a parameter the same object when its module moves to or from tpu.

On CUDA, ``Module.to`` assigns ``param.data``, so weights that two modules share stay shared and an
optimizer made before keeps its parameters. torch decides that by a fixed list of device types
without PrivateUse1, and for others makes a new Parameter per module, which unties them. The
switch ``torch.__future__.set_swap_module_params_on_conversion`` would mend it, but changes every
device and refuses parameters with weak references. So only a parameter that crosses between tpu
and another device is handled here, inside the function that ``Module._apply`` maps over a module.
"""

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

Function = Callable[[torch.Tensor], torch.Tensor]


class _Move:
    """A conversion that keeps the identity of the parameters it moves to or from tpu.

    Where that is not allowed torch makes a new parameter for each module: ``refused`` holds the
    old ones by id and ``replaced`` the first new one of each, which all its modules then share.
    """

    def __init__(self, convert: Function) -> None:
        self.convert = convert
        self.refused: dict[int, nn.Parameter] = {}
        self.replaced: dict[int, nn.Parameter | None] = {}

    def __call__(self, tensor: torch.Tensor) -> torch.Tensor:
        converted = self.convert(tensor)
        if isinstance(tensor, nn.Parameter) and _crosses(tensor, converted):
            if _swap(tensor, converted, self.convert):
                return tensor
            self.refused[id(tensor)] = tensor
        return converted

    def share_replacements(self, module: nn.Module, before: dict[str, Any]) -> None:
        for name, old in before.items():
            if id(old) in self.refused:
                new = module._parameters[name]
                module._parameters[name] = self.replaced.setdefault(id(old), new)


def _crosses(tensor: torch.Tensor, converted: torch.Tensor) -> bool:
    """Whether torch would replace this parameter, and only because one side is a tpu."""
    return (
        tensor.device.type != converted.device.type
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


def _swap(parameter: nn.Parameter, converted: torch.Tensor, convert: Function) -> bool:
    """Gives the parameter the converted tensor, and converts its gradient.

    False, with nothing changed, where a weak reference, a view or a graph still holds on to it.
    """
    gradient = parameter.grad
    parameter.grad = None  # a held gradient would forbid the swap
    # Swapping exchanges class, attributes and hooks too: equal ones on both sides stay.
    replacement = torch.Tensor._make_subclass(type(parameter), converted, parameter.requires_grad)
    replacement.__dict__.update(parameter.__dict__)
    replacement._backward_hooks = parameter._backward_hooks
    replacement._post_accumulate_grad_hooks = parameter._post_accumulate_grad_hooks
    try:
        torch.utils.swap_tensors(parameter, replacement)
    except RuntimeError:
        parameter.grad = gradient
        return False
    if gradient is not None:
        parameter.grad = convert(gradient).requires_grad_(gradient.requires_grad)
    return True


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
