"""Settings of torch.compile on tpu: ``torch.tpu.compiler``."""

from torch_tpu.dynamo.options import custom_compiler_options

__all__ = ["custom_compiler_options"]
