"""Scaled, quantised and grouped products of matrices, eager and compiled."""

import pytest
import torch
from compiling import assert_compiles, assert_trains, compiled, randn
from torch.nn import functional as F
from twins import DEVICE, assert_same, assert_same_on_both, to

E4M3, E5M2, BF16 = torch.float8_e4m3fn, torch.float8_e5m2, torch.bfloat16
ENDS = torch.tensor([2, 2, 5, 8], dtype=torch.int32)
LHS, RHS = randn(16, 32), randn(48, 32, seed=2)
ONE_SCALE = torch.tensor(0.5), torch.tensor(2.0)
ROW_SCALES = randn(16, 1, seed=3).abs(), randn(1, 48, seed=4).abs()


def _scaled(lhs, rhs, *scales, bias=None, out_dtype=BF16):
    return torch._scaled_mm(lhs, rhs.t(), *scales, bias=bias, out_dtype=out_dtype)


def _by_recipe(lhs, rhs, scale_a, scale_b):
    recipe = F.ScalingType.RowWise
    return F.scaled_mm(lhs, rhs.t(), scale_a, recipe, scale_b, recipe)


INT8 = torch.arange(-128, 128, dtype=torch.int8).repeat(8).reshape(32, 64)

PRODUCTS = {
    "one scale": (_scaled, LHS.to(E4M3), RHS.to(E4M3), *ONE_SCALE),
    "a scale per row": (_scaled, LHS.to(E4M3), RHS.to(E5M2), *ROW_SCALES),
    "recipes": (_by_recipe, LHS.to(E4M3), RHS.to(E4M3), *ROW_SCALES),
    "int8 weights": (
        torch._weight_int8pack_mm,
        randn(4, 64, dtype=BF16),
        INT8,
        randn(32, seed=5, dtype=BF16),
    ),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_narrow_products_are_the_cpus(name):
    function, *inputs = PRODUCTS[name]
    assert_same_on_both(function, *inputs)
    assert_compiles(function, *inputs, calls=1)


def test_a_scaled_product_with_a_bias_in_every_dtype():
    inputs, bias = to(DEVICE, [LHS.to(E4M3), RHS.to(E4M3), *ONE_SCALE]), randn(48, dtype=BF16)
    for out_dtype in (torch.float32, torch.float16, BF16, E4M3, E5M2, None):
        got = _scaled(*inputs, bias=bias.to(DEVICE), out_dtype=out_dtype)
        expected = _scaled(*to("cpu", inputs), bias=bias, out_dtype=out_dtype)
        assert_same(got, expected)


def test_what_exceeds_float8_saturates_where_there_is_no_infinity():
    values = torch.tensor([torch.inf, -torch.inf, torch.nan, 464.0, 465.0, -1e9, 3.14])
    for dtype in (E4M3, E5M2):
        for source in (torch.float32, BF16, torch.float64, torch.int32):
            x = values[3:].to(source) if source == torch.int32 else values.to(source)
            expected = x.to(dtype).float()
            assert_same(x.to(DEVICE).to(dtype).float(), expected, equal_nan=True)
            got = compiled(lambda x, dtype=dtype: x.to(dtype).float())(x.to(DEVICE))
            assert_same(got, expected, equal_nan=True)
    large = torch.full((16, 32), 400.0).to(E4M3)
    for dtype in (E4M3, E5M2):
        product = _scaled(*to(DEVICE, [large, large, *ONE_SCALE]), out_dtype=dtype)
        assert_same(product.float(), _scaled(large, large, *ONE_SCALE, out_dtype=dtype).float())


REFUSED = {
    "inner sizes": (_scaled, LHS.to(E4M3), RHS[:, :16].to(E4M3), *ONE_SCALE),
    "wide operands": (_scaled, LHS, RHS, *ONE_SCALE),
    "scales of one side": (_scaled, LHS.to(E4M3), RHS.to(E4M3), ROW_SCALES[0], ONE_SCALE[1]),
    "scales in float64": (_scaled, LHS.to(E4M3), RHS.to(E4M3), *(x.double() for x in ONE_SCALE)),
    "int8 inner sizes": (torch._weight_int8pack_mm, randn(4, 63), INT8, randn(32)),
    "offsets in int64": (torch._grouped_mm, randn(8, 16), randn(4, 16, 24), ENDS.long()),
    "too few groups": (torch._grouped_mm, randn(8, 16), randn(4, 16, 24), ENDS[:3]),
    "no offsets": (torch._grouped_mm, randn(8, 16), randn(4, 16, 24)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_cpu_refuses_is_refused_in_its_words(name):
    function, *inputs = REFUSED[name]
    with pytest.raises((RuntimeError, ValueError)) as expected:
        function(*inputs)
    with pytest.raises(expected.type) as got:
        function(*to(DEVICE, inputs))
    assert str(got.value) == str(expected.value)


def test_int8_weights_with_rows_that_the_cpus_kernel_overruns():
    # Of whole numbers, whose sums are exact in any order.
    x, weight, scales = randn(4, 63).mul(4).round(), INT8[:, :63].contiguous(), randn(32)
    got = torch._weight_int8pack_mm(*to(DEVICE, [x, weight, scales]))
    assert_same(got, (x @ weight.float().T) * scales)


def _grouped(lhs, rhs, ends=None):
    # The gradient of a plain sum is expanded, which PyTorch's checks of strides refuse.
    return F.grouped_mm(lhs, rhs.mT, offs=ends).float().square()


def _small(*sizes):
    return randn(*sizes) / 4


GROUPED = {
    "rows": (_small(8, 16), _small(4, 24, 16), ENDS),
    "columns": (_small(4, 24, 16), _small(8, 16), ENDS),
    "the inner dimension": (_small(16, 8), _small(24, 8), ENDS),
    "nothing": (_small(4, 8, 16), _small(4, 24, 16)),
}


@pytest.mark.parametrize("split", GROUPED)
def test_grouped_products_train(split):
    inputs = [
        each.to(BF16).requires_grad_() if each.is_floating_point() else each
        for each in GROUPED[split]
    ]
    assert_trains(_grouped, *inputs, calls=1)


@pytest.mark.parametrize("split", GROUPED)
def test_grouped_products_have_gradients_in_eager_mode(split):
    def gradients(lhs, rhs, *ends):
        leaves = [each.detach().requires_grad_() for each in (lhs, rhs)]
        out = _grouped(*leaves, *ends)
        return out.detach(), *torch.autograd.grad(out.sum(), leaves)

    assert_same_on_both(gradients, *GROUPED[split])


def test_scaled_products_by_group():
    lhs, rhs = randn(8, 16).to(E4M3), randn(4, 32, 16).to(E4M3)
    scales = randn(8, seed=3).abs(), randn(4, 32, seed=4).abs()
    rows = (lhs.float() * scales[0][:, None]).split([2, 0, 3, 3])
    weights = rhs.float() * scales[1][..., None]
    expected = torch.cat([part @ each.T for part, each in zip(rows, weights, strict=True)])

    def function(lhs, rhs, *scales):
        return torch._scaled_grouped_mm(lhs, rhs.mT, *scales, offs=ENDS.to(DEVICE))

    for call in (function, compiled(function)):
        assert_same(call(*to(DEVICE, [lhs, rhs, *scales])), expected.to(BF16))
