"""What torch.set_float32_matmul_precision means: the precision that lowered programs carry."""

import re

import pytest
import torch
from lowered import lowered

aten = torch.ops.aten

# XLA's words; DEFAULT is one bfloat16 pass and is not written.
WORDS = {"highest": "HIGHEST", "high": "HIGH", "medium": "DEFAULT"}
PRODUCT = re.compile(r"= \"?(?:stablehlo\.(?:dot_general|convolution)|stablehlo\.composite \"chlo)")


def randn(*sizes):
    return torch.randn(sizes)


IMAGE, KERNEL = randn(1, 3, 8, 8), randn(4, 3, 3, 3)
GEOMETRY = [1, 1], [0, 0], [1, 1], False, [0, 0], 1
HEADS = randn(1, 2, 8, 4)

OPS = {
    "mm": (aten.mm.default, randn(4, 4), randn(4, 4)),
    "baddbmm": (aten.baddbmm.default, randn(2, 4, 4), randn(2, 4, 4), randn(2, 4, 4)),
    "mv": (aten.mv.default, randn(4, 4), randn(4)),
    "trilinear": (aten._trilinear.default, randn(2, 3, 1), randn(1, 3, 4), randn(2, 1, 4), [], [],
                  [], [1]),
    "convolution": (aten.convolution.default, IMAGE, KERNEL, None, *GEOMETRY),
    "its gradients": (aten.convolution_backward.default, randn(1, 4, 6, 6), IMAGE, KERNEL, [4],
                      *GEOMETRY, [True, True, True]),
    "attention": (aten._scaled_dot_product_fused_attention_overrideable.default, HEADS, HEADS,
                  HEADS),
    "groups": (aten._grouped_mm.default, randn(8, 16), randn(4, 16, 8),
               torch.tensor([1, 2, 4, 8], dtype=torch.int32)),
    "cdist": (aten._cdist_forward.default, randn(30, 4), randn(30, 4), 2.0, None),
    "matrix_exp": (aten.linalg_matrix_exp.default, randn(4, 4)),
    "ormqr": (aten.ormqr.default, randn(6, 4), randn(4), randn(6, 3)),
}  # fmt: skip


def products(text):
    return [line for line in text.splitlines() if PRODUCT.search(line)]


def precisions(text):
    """The precision of both operands of every product, as a set."""
    found = set()
    for line in products(text):
        found |= set(re.findall(r"\b(HIGHEST|HIGH|DEFAULT)\b", line) or ["DEFAULT"])
    return found


@pytest.mark.parametrize("precision", WORDS)
@pytest.mark.parametrize("name", OPS)
def test_products_of_float32_have_the_precision_that_is_set(name, precision):
    op, *args = OPS[name]
    assert precisions(lowered(precision, op, *args)) == {WORDS[precision]}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", ["mm", "baddbmm", "convolution", "attention", "groups"])
def test_narrow_products_accumulate_in_float32(name, dtype):
    op, *args = OPS[name]
    args = [
        arg.to(dtype) if isinstance(arg, torch.Tensor) and arg.is_floating_point() else arg
        for arg in args
    ]
    lines = products(lowered("highest", op, *args))
    assert lines
    for line in lines:
        operands, result = re.search(r": \((.*)\) -> (tensor<[^>]*>)", line).groups()
        assert operands.count("f32") == 0, line
        assert result.endswith("xf32>"), line


def test_float32_factorisations_do_not_follow_a_lower_precision():
    for op in (aten.linalg_cholesky_ex.default, aten._linalg_svd.default):
        text = lowered("medium", op, torch.eye(4))
        assert precisions(text) <= {"HIGHEST"}
