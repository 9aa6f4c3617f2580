"""torch.compile without a backend's name: graphs with tpu tensors come here, others to inductor.

torch.compile makes one object per call for its default backend. It keeps all that it does, and its
class: only options that are ours are taken aside, and a graph with tpu tensors goes to our backend.
Nothing is imported for it before torch.compile runs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch

from torch_tpu.dynamo import options as known


def install() -> None:
    """Teach the objects that torch.compile makes."""
    default, named = torch._TorchCompileInductorWrapper, torch._TorchCompileWrapper
    for kind, name, change in (
        (default, "__init__", _take_options),
        (default, "__eq__", _compare_options),
        (default, "__call__", _choose_backend),
        (named, "__init__", _check_options),
    ):
        setattr(kind, name, change(getattr(kind, name)))


def _take_options(original: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(original)
    def init(self: Any, mode: Any, options: Any, dynamic: Any, name: Any = None) -> None:
        ours: dict[str, Any] = {}
        if isinstance(options, Mapping):
            ours = {key: value for key, value in options.items() if known.is_known(key)}
        if ours:
            options = {key: value for key, value in options.items() if key not in ours}
            known.Options.parse(ours)
        self.tpu_options, self.tpu_mode = ours, mode
        original(self, mode, options, dynamic, name)

    return init


def _compare_options(original: Callable[..., bool]) -> Callable[..., bool]:
    @functools.wraps(original)
    def equal(self: Any, other: Any) -> bool:
        return original(self, other) and self.tpu_options == other.tpu_options

    return equal


def _choose_backend(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def call(self: Any, module: Any, inputs: Sequence[Any], **settings: Any) -> Any:
        if not uses_tpu(module, inputs):
            return original(self, module, inputs, **settings)
        from torch_tpu.dynamo import backend

        ours = dict(self.tpu_options)
        if self.name is not None:
            ours.setdefault("custom_module_name", self.name)
        return backend.tpu(module, inputs, mode=self.tpu_mode, options=ours)

    return call


def _check_options(original: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(original)
    def init(self: Any, backend: Any, mode: Any, options: Any, dynamic: Any) -> None:
        original(self, backend, mode, options, dynamic)
        if self.compiler_name == "tpu":  # a mistake is raised where it stands
            known.Options.parse(options, mode)

    return init


def uses_tpu(module: Any, inputs: Iterable[Any]) -> bool:
    """Whether a graph that Dynamo captured has a tensor on tpu."""
    if any(map(_on_tpu, inputs)):
        return True
    held = (*module.parameters(), *module.buffers()) if isinstance(module, torch.nn.Module) else ()
    if any(map(_on_tpu, held)):
        return True
    nodes = getattr(getattr(module, "graph", None), "nodes", ())
    return any(
        _on_tpu(each)
        for node in nodes
        for each in _flat(node.meta.get("example_value", node.meta.get("val")))
    )


def _on_tpu(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.device.type == "tpu"


def _flat(value: Any) -> Iterable[Any]:
    return value if isinstance(value, (list, tuple)) else (value,)
