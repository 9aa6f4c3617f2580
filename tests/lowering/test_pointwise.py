"""Arithmetic, comparison, selection and unary functions beside CPU PyTorch."""

import pytest
import torch
from shadow import Shadow, run_samples
from torch.testing._internal.common_methods_invocations import op_db

NAMES = """
    abs acos acosh add addcdiv addcmul angle asin asinh atan atan2 atanh bitwise_and
    bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift bitwise_xor ceil clamp clamp_max
    clamp_min complex conj_physical copysign cos cosh deg2rad div eq erf erfc erfinv exp exp2
    expm1 fill floor floor_divide fmax fmin fmod frac frexp gcd ge gt heaviside hypot isinf isnan
    isneginf isposinf lcm ldexp le lerp log log10 log1p log2 logaddexp logaddexp2 logical_and
    logical_not logical_or logical_xor logit lt maximum minimum mul nan_to_num ne neg nextafter
    polar pow rad2deg reciprocal remainder round rsqrt rsub sgn sigmoid sign signbit sin sinc sinh
    sqrt sub tan tanh true_divide trunc where __rpow__ __rmod__ __radd__ __rdiv__
""".split()
OPS = [op for op in op_db if op.name in NAMES]
# Each op runs in one floating dtype with its backward, and in one integral or complex dtype.
OTHERS = (torch.int32, torch.complex64, torch.uint8)


def _id(op):
    return f"{op.name}-{op.variant_test_name}" if op.variant_test_name else op.name


def _run(op, dtype, grad, limit=2):
    narrow = {"rtol": 2e-2, "atol": 2e-2} if dtype == torch.bfloat16 else {}
    return run_samples(op, dtype, grad=grad, limit=limit, **narrow)


@pytest.mark.parametrize("op", OPS, ids=_id)
def test_samples(op):
    supported = op.supported_dtypes("cpu")
    seen = {}
    if torch.float32 in supported:
        seen |= _run(op, torch.float32, op.supports_autograd).seen
    for dtype in OTHERS:
        if dtype in supported:
            seen |= _run(op, dtype, False).seen
            break
    assert seen
