"""Every ATen op that PyTorch tags core has a rule, a native kernel, or is composed of such ops."""

import torch

from torch_tpu.compiler.decomposition import rule_for

# Kernels in C++ that move no values: csrc/eager/native_kernels.cpp and copy.cpp.
NATIVE = {"aten::resize_", "aten::_local_scalar_dense"}


def _core_ops():
    for name in torch._C._dispatch_get_all_op_names():
        namespace, _, rest = name.partition("::")
        packet, _, overload = rest.partition(".")
        if namespace == "aten" and hasattr(torch.ops.aten, packet):
            op = getattr(getattr(torch.ops.aten, packet), overload or "default", None)
            if op is not None and torch.Tag.core in op.tags:
                yield name, op


def _is_composed(name):
    composed = ("CompositeImplicitAutograd", "CompositeExplicitAutograd")
    return any(torch._C._dispatch_has_kernel_for_dispatch_key(name, key) for key in composed)


def test_every_core_op_is_served():
    ops = dict(_core_ops())
    unserved = {name for name, op in ops.items() if rule_for(op) is None and not _is_composed(name)}
    assert len(ops) == 193
    assert unserved == NATIVE
