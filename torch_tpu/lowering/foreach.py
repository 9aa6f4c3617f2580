"""Ops over lists of tensors, each through the rule of the same op over one tensor."""

import jax.numpy as jnp
import torch

from torch_tpu.lowering import registry
from torch_tpu.lowering.promotion import cast, promote
from torch_tpu.lowering.registry import lowering

aten = torch.ops.aten


def _mapped(op):
    """The rule that maps the rule of ``op`` over its lists; what is no list goes to every call.

    The rule of ``op`` is looked up in the trace: by then every module has registered its own.
    """

    def rule(self, *others, **keywords):
        function = registry.find(op).function
        length = next(len(each) for each in (self, *others) if isinstance(each, list))
        columns = (each if isinstance(each, list) else [each] * length for each in (self, *others))
        return [function(*row, **keywords) for row in zip(*columns, strict=True)]

    return rule


_UNARY = (
    "abs acos asin atan ceil cos cosh erf erfc exp expm1 floor frac lgamma log log10 log1p log2 "
    "max neg reciprocal round rsqrt sigmoid sign sin sinh sqrt tan tanh trunc zero copy mm"
)
for _name in _UNARY.split():
    lowering(getattr(aten, f"_foreach_{_name}").default)(_mapped(getattr(aten, _name).default))

for _name, _op in {
    "add": aten.add.Tensor,
    "clamp_max": aten.clamp_max.default,
    "clamp_min": aten.clamp_min.default,
    "div": aten.div.Tensor,
    "lerp": aten.lerp.Tensor,
    "maximum": aten.maximum.default,
    "minimum": aten.minimum.default,
    "mul": aten.mul.Tensor,
    "sub": aten.sub.Tensor,
}.items():
    _packet = getattr(aten, f"_foreach_{_name}")
    lowering(_packet.Scalar, _packet.List, _packet.ScalarList)(_mapped(_op))

for _name in ("add", "div", "mul"):
    lowering(getattr(aten, f"_foreach_{_name}").Tensor)(_mapped(getattr(aten, _name).Tensor))

lowering(aten._foreach_pow.List)(_mapped(aten.pow.Tensor_Tensor))
lowering(aten._foreach_pow.ScalarAndTensor)(_mapped(aten.pow.Scalar))
lowering(aten._foreach_pow.Scalar, aten._foreach_pow.ScalarList, static=("exponent",))(
    _mapped(aten.pow.Tensor_Scalar)
)


@lowering(
    aten._foreach_addcmul.Scalar, aten._foreach_addcmul.ScalarList, aten._foreach_addcmul.Tensor
)
def _foreach_addcmul(self, tensor1, tensor2, scalars=1):
    return _mapped(aten.addcmul.default)(self, tensor1, tensor2, _one_each(scalars))


@lowering(
    aten._foreach_addcdiv.Scalar, aten._foreach_addcdiv.ScalarList, aten._foreach_addcdiv.Tensor
)
def _foreach_addcdiv(self, tensor1, tensor2, scalars=1):
    return _mapped(aten.addcdiv.default)(self, tensor1, tensor2, _one_each(scalars))


def _one_each(scalars):
    """A 1-d tensor of numbers as the list of them; a number or a list as it is."""
    return list(scalars) if getattr(scalars, "ndim", 0) else scalars


@lowering(aten._foreach_norm.Scalar, static=("ord",))
def _foreach_norm(self, ord=2, dtype=None):
    norm = registry.find(aten.linalg_vector_norm.default).function
    return [norm(x, ord, None, False, dtype=dtype) for x in self]


@lowering(aten._foreach_powsum.Scalar, static=("ord",))
def _foreach_powsum(self, ord=2, dtype=None):
    widened = (x if dtype is None else cast(x, dtype) for x in self)
    return [_powsum(jnp.abs(*promote(x)), ord) for x in widened]


def _powsum(size, ord):
    if ord == 0:
        return jnp.sum(size != 0)
    return jnp.sum(size * size if ord == 2 else size**ord)


@lowering(aten._foreach_clone.default)
def _foreach_clone(self, *, memory_format=None):
    return self
