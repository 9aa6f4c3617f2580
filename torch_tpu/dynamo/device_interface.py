"""What Dynamo asks of a device. torch has an interface named tpu that knows no streams or devices.

Importing this module imports Dynamo, so only the backend does.
"""

from typing import Any

import torch
from torch._dynamo import device_interface
from torch._dynamo.variables.optimizer import OptimizerVariable

from torch_tpu import accelerator


class TpuInterface(device_interface.TpuInterface):
    """torch.tpu by the names of torch's DeviceInterface."""

    device = staticmethod(accelerator.device)
    Event = torch.Event
    Stream = torch.Stream

    current_device = staticmethod(accelerator.current_device)
    current_stream = staticmethod(accelerator.current_stream)
    device_count = staticmethod(accelerator.device_count)
    exchange_device = staticmethod(torch._C._accelerator_exchangeDevice)
    is_available = staticmethod(accelerator.is_available)
    is_bf16_supported = staticmethod(accelerator.is_bf16_supported)
    maybe_exchange_device = staticmethod(torch._C._accelerator_maybeExchangeDevice)
    set_device = staticmethod(accelerator.set_device)
    set_stream = staticmethod(accelerator.set_stream)
    stream = staticmethod(accelerator.stream)
    synchronize = staticmethod(accelerator.synchronize)

    class Worker:
        """Asked in processes of their own too, where the device is this process's."""

        current_device = staticmethod(accelerator.current_device)
        get_device_properties = staticmethod(accelerator.get_device_properties)
        set_device = staticmethod(accelerator.set_device)


def register() -> None:
    """Installs the interface, and what follows for optimizers."""
    device_interface.get_registered_device_interfaces()  # registers torch's own, once
    device_interface.register_interface_for_device("tpu", TpuInterface)
    if OptimizerVariable._set_capturable is _set_capturable_elsewhere:
        OptimizerVariable._set_capturable = _set_capturable


_set_capturable_elsewhere = OptimizerVariable._set_capturable


def _set_capturable(self: OptimizerVariable, tx: Any) -> None:
    """As Dynamo does for cuda: a new optimizer counts its steps on the device.

    Else a compiled step would add one to numbers on the CPU, which are not part of a program.
    """
    for group in self.value.param_groups:
        parameters = group["params"]
        new = all(p.device.type == "tpu" and p not in self.value.state for p in parameters)
        if new and "capturable" in group:
            group["capturable"] = True
    _set_capturable_elsewhere(self, tx)
