"""Arithmetic, comparison, selection and unary functions beside CPU PyTorch."""

import pytest
import torch
from shadow import Shadow, run_rule, run_samples
from torch.testing._internal.common_methods_invocations import op_db

NAMES = {
    "abs", "acos", "acosh", "add", "addcdiv", "addcmul", "angle", "asin", "asinh", "atan",
    "atan2", "atanh", "bitwise_and", "bitwise_left_shift", "bitwise_not", "bitwise_or",
    "bitwise_right_shift", "bitwise_xor", "ceil", "clamp", "clamp_max", "clamp_min", "complex",
    "conj_physical", "copysign", "cos", "cosh", "deg2rad", "div", "eq", "erf", "erfc", "erfinv",
    "exp", "exp2", "expm1", "fill", "floor", "floor_divide", "fmax", "fmin", "fmod", "frac",
    "frexp", "gcd", "ge", "gt", "heaviside", "hypot", "isinf", "isnan", "isneginf", "isposinf",
    "lcm", "ldexp", "le", "lerp", "log", "log10", "log1p", "log2", "logaddexp", "logaddexp2",
    "logical_and", "logical_not", "logical_or", "logical_xor", "logit", "lt", "maximum",
    "minimum", "mul", "nan_to_num", "ne", "neg", "nextafter", "polar", "pow", "rad2deg",
    "reciprocal", "remainder", "round", "rsqrt", "rsub", "sgn", "sigmoid", "sign", "signbit",
    "sin", "sinc", "sinh", "sqrt", "sub", "tan", "tanh", "true_divide", "trunc", "where",
    "__rpow__", "__rmod__", "__radd__", "__rdiv__",
}  # fmt: skip
aten = torch.ops.aten
OPS = [op for op in op_db if op.name in NAMES]
COMPLEX = {
    "abs", "acos", "angle", "conj_physical", "div", "exp", "expm1", "log1p", "mul", "pow",
    "reciprocal", "sgn", "sigmoid", "tan", "where",
}  # fmt: skip


def _id(op):
    return f"{op.name}-{op.variant_test_name}" if op.variant_test_name else op.name


@pytest.mark.parametrize("op", OPS, ids=_id)
def test_samples(op):
    supported = op.supported_dtypes("cpu")
    real = torch.float32 if torch.float32 in supported else torch.int32
    if real in supported and op.name != "conj_physical":  # of real numbers it is no op
        assert run_samples(
            op, real, grad=real.is_floating_point and op.supports_autograd, limit=1
        ).seen
    if op.name in COMPLEX and "rounding" not in op.variant_test_name:
        assert run_samples(op, torch.complex64, limit=1).seen


INF, NAN = float("inf"), float("nan")
EDGES = torch.tensor([NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.5, -2.5, 3.0])
INTEGERS = torch.tensor([0, 1, -1, 2, -2, 3, 7, -7, 31, 32, 127, -128], dtype=torch.int32)


def test_edges_of_functions_of_one():
    with Shadow() as shadow:
        for name in (
            "angle", "frac", "isinf", "isneginf", "isposinf", "nan_to_num", "reciprocal",
            "round", "rsqrt", "sgn", "sign", "signbit", "sinc", "sqrt", "trunc",
        ):  # fmt: skip
            getattr(torch, name)(EDGES)
        torch.frexp(EDGES[3:])
        torch.nan_to_num(EDGES.bfloat16(), nan=1.0, neginf=-2.0)
        torch.round(EDGES * 11.1, decimals=-1)
        torch.logit(EDGES, eps=0.25)
    assert "aten.frexp.Tensor" in shadow.seen and len(shadow.seen) > 15


def test_edges_of_functions_of_two():
    a, b = EDGES[:, None], EDGES
    with Shadow() as shadow:
        for name in (
            "atan2", "copysign", "floor_divide", "fmax", "fmin", "fmod", "heaviside",
            "hypot", "logaddexp", "logaddexp2", "maximum", "minimum", "nextafter", "pow",
            "remainder",
        ):  # fmt: skip
            getattr(torch, name)(a, b)
        torch.clamp(a, EDGES[5:7], b[:2])
        torch.clamp(EDGES, -0.5, NAN)
    assert len(shadow.seen) >= 16


def test_integers():
    a, b = INTEGERS[:, None], INTEGERS[1:]
    with Shadow() as shadow:
        for function in (torch.floor_divide, torch.remainder, torch.fmod, torch.pow, torch.gcd):
            function(a, b)
        for function in (torch.bitwise_left_shift, torch.bitwise_right_shift):
            function(a, b)
        torch.div(a, b, rounding_mode="trunc")
        torch.pow(INTEGERS, 7)
        torch.pow(2.5, INTEGERS)
    assert len(shadow.seen) >= 9


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 4, -1, -2, 0.5, -0.5, 2.5, 7])
def test_constant_exponents(exponent):
    with Shadow() as shadow:
        torch.pow(EDGES, exponent)
        torch.pow(INTEGERS.double() if exponent < 0 else INTEGERS, exponent)
        torch.pow(torch.tensor([1 + 2j, -0.5j]), exponent)
    assert shadow.seen["aten.pow.Tensor_Scalar"] == 3


@pytest.mark.parametrize("op", [torch.add, torch.sub, torch.rsub], ids=lambda op: op.__name__)
def test_alpha_is_a_factor_of_what_is_added(op):
    with Shadow() as shadow:
        op(EDGES, EDGES.flip(0), alpha=2.5)
        op(INTEGERS, 3, alpha=-2)
    assert sum(shadow.seen.values()) >= 2


def test_a_number_is_compared_in_the_tensor_s_dtype():
    with Shadow() as shadow:
        assert (torch.tensor([0.1], dtype=torch.bfloat16) == 0.1).all()
        assert (torch.tensor([3]) > 2.5).all()
    assert len(shadow.seen) >= 2


@pytest.mark.parametrize("function", [torch.floor_divide, torch.remainder, torch.fmod])
def test_integer_division_by_zero(function):
    overload = {
        torch.floor_divide: aten.floor_divide.default,
        torch.remainder: aten.remainder.Tensor,
        torch.fmod: aten.fmod.Tensor,
    }[function]
    with pytest.raises(ValueError, match="ZeroDivisionError"):
        run_rule(overload, (torch.tensor([1]), torch.tensor([0])), {})


def test_fill_zero_and_copy():
    with Shadow() as shadow:
        x = torch.full((2, 3), 7.5)
        aten.fill.Tensor(x, torch.tensor(2))
        aten.fill.Scalar(x, 1.5)
        aten.zero(x)
        aten.copy(x, torch.tensor([1j, 2, 3]))
        aten.copy(x.to(torch.int8), torch.rand(3) * 5)
    assert sum(shadow.seen.values()) >= 5
