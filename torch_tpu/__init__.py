"""TPUs as a PyTorch device: importing this package makes ``"tpu"`` a device of torch."""

__version__ = "0.1.0"


def _autoload() -> None:
    """Entry point of the group ``torch.backends``: importing the package is what registers.

    Defined before torch is imported, because torch asks for it in the middle of that import.
    """


import atexit  # noqa: E402
import importlib  # noqa: E402
import os  # noqa: E402
import sys  # noqa: E402
import warnings  # noqa: E402
from typing import Any  # noqa: E402

import torch  # noqa: E402

_LAZY_MODULES = ("debug", "diagnostics", "export")


def _deferred(module: str, function: str) -> Any:
    """A function whose module is imported when it is first called."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return getattr(importlib.import_module(module), function)(*args, **kwargs)

    return call


def _alias_submodules(accelerator: Any) -> None:
    """``import torch.tpu.memory`` finds the module that ``torch.tpu.memory`` is."""
    prefix = accelerator.__name__ + "."
    for name in [name for name in sys.modules if name.startswith(prefix)]:
        sys.modules[f"torch.tpu.{name.removeprefix(prefix)}"] = sys.modules[name]


def _register(_C: Any) -> None:
    torch.utils.rename_privateuse1_backend("tpu")
    _C.register()
    _C.set_runtime(_deferred("torch_tpu.runtime", "resolve"))
    _C.set_library_folders([os.path.dirname(each) + os.sep for each in (torch.__file__, __file__)])

    from torch_tpu import accelerator, artifacts  # noqa: F401  (PyTorch may load artifacts)
    from torch_tpu.dynamo import default

    torch._register_device_module("tpu", accelerator)
    _alias_submodules(accelerator)
    torch.utils.generate_methods_for_privateuse1_backend(for_storage=True)
    accelerator.modules.keep_parameters_in_place()
    accelerator.printing.format_on_the_host()
    accelerator.higher_order.support_tpu()
    accelerator.batching.support_attention()
    accelerator.modes.apply_environment()
    torch.set_autocast_dtype("tpu", torch.bfloat16)
    default.install()
    atexit.register(_C.finish_backward)
    # Before torch reads TORCH_LOGS, which it does after it loaded this package.
    importlib.import_module("torch._logging._internal").register_log("tpu", "torch_tpu")
    globals()["set_eager_mode"] = accelerator.set_eager_mode


def __getattr__(name: str) -> Any:
    if name in _LAZY_MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_LAZY_MODULES])


try:
    from torch_tpu import _C
except ImportError as error:
    # torch imports this package by itself and must stay usable; so must the lowering rules.
    warnings.warn(
        f"torch has no tpu device, because torch_tpu's extension can't be loaded ({error}): "
        "run make setup, or pip install -e . --no-build-isolation",
        stacklevel=2,
    )
else:
    _register(_C)
