"""Matrix products beside CPU PyTorch."""

import jax
import jax.numpy as jnp
import pytest
import torch
from family import Outside
from shadow import Shadow, run_rule, run_samples, to_array, to_tensor
from torch.nn.functional import ScalingType, scaled_mm
from torch.testing import assert_close
from torch.testing._internal.common_methods_invocations import op_db

from torch_tpu.lowering import matmul
from torch_tpu.lowering.platforms import lowering_for

aten = torch.ops.aten

OTHERS = Outside("matmul")

OPS = {
    "mm": 4,
    "bmm": 4,
    "addmm": 4,
    "addmv": 3,
    "addr": 3,
    "addbmm": 4,
    "baddbmm": 3,
    "mv": 2,
    "dot": 2,
    "vdot": 2,
    "einsum": 6,
    "tensordot": 3,
    "nn.functional.bilinear": 3,
    "nn.functional.linear": 4,
}
DTYPES = [torch.float32, torch.bfloat16, torch.complex64, torch.int64, torch.int8]


@pytest.mark.parametrize("op", [op for op in op_db if op.name in OPS], ids=lambda op: op.name)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_samples(op, dtype):
    if dtype not in op.supported_dtypes("cpu"):
        pytest.skip("not on the CPU")
    if op.name == "addbmm" and dtype == torch.bfloat16:
        pytest.skip("the CPU rounds after each matrix of the batch")
    tolerance = 2e-2 if dtype == torch.bfloat16 else 1e-4
    plain = dtype == torch.float32
    limit = OPS[op.name] if plain or op.name == "einsum" else 2
    assert run_samples(
        op, dtype, grad=plain, limit=limit, skip=OTHERS, rtol=tolerance, atol=tolerance
    ).seen


@pytest.mark.parametrize("dtype", [torch.bool, torch.int32, torch.float16], ids=str)
def test_addr(dtype):
    vector = torch.tensor([0, 1, 1]).to(dtype)
    number = bool if dtype == torch.bool else int
    with Shadow(skip=OTHERS) as shadow:
        for beta, alpha in ((number(1), number(1)), (number(0), number(1)), (number(1), number(0))):
            torch.addr(torch.eye(3).to(dtype), vector, vector, beta=beta, alpha=alpha)
    assert shadow.seen == {"aten.addr.default": 3}


def test_beta_of_zero_ignores_self():
    nan, matrix = torch.full((3, 3), torch.nan), torch.randn(3, 3)
    with Shadow(skip=OTHERS) as shadow:
        torch.addmm(nan, matrix, matrix, beta=0)
        torch.addmv(nan[0], matrix, matrix[0], beta=0)
        torch.addr(nan, matrix[0], matrix[0], beta=0)
        torch.baddbmm(nan[None], matrix[None], matrix[None], beta=0)
        torch.addbmm(nan, matrix[None], matrix[None], beta=0)
        torch.addmm(nan[:, :1], matrix, matrix)
    assert sum(shadow.seen.values()) == 6


@pytest.mark.parametrize("sizes", [(0, 3, 2), (2, 0, 3), (2, 3, 0)], ids=str)
def test_zero_sizes(sizes):
    rows, inner, columns = sizes
    lhs, rhs = torch.randn(rows, inner), torch.randn(inner, columns)
    with Shadow(skip=OTHERS) as shadow:
        lhs @ rhs
        lhs[None] @ rhs[None]
        torch.addmm(torch.ones(rows, columns), lhs, rhs)
        torch.addmv(torch.ones(rows), lhs, torch.ones(inner))
    assert sum(shadow.seen.values()) == 4


@pytest.mark.parametrize("use_gelu", [False, True])
def test_addmm_activation(use_gelu):
    with Shadow(skip=OTHERS) as shadow:
        aten._addmm_activation(
            torch.randn(4), torch.randn(3, 5), torch.randn(5, 4), use_gelu=use_gelu
        )
    assert shadow.seen


def test_int64_without_a_dot():
    """What TPUs run, run here."""
    lhs = torch.randint(-(2**40), 2**40, (2, 3, 4))
    rhs = torch.randint(-(2**40), 2**40, (2, 4, 5))
    with lowering_for(["tpu"]), Shadow(skip=OTHERS) as shadow:
        lhs @ rhs
        lhs[0] @ rhs[0]
        lhs[0] @ rhs[0, :, 0]
        torch.dot(lhs[0, 0], rhs[0, :, 0])
        torch.addbmm(lhs[0] @ rhs[0], lhs, rhs)
    assert sum(shadow.seen.values()) == 6


def test_int_mm():
    lhs = torch.randint(-128, 127, (17, 8), dtype=torch.int8)
    rhs = torch.randint(-128, 127, (8, 16), dtype=torch.int8)
    with Shadow(skip=OTHERS) as shadow:
        torch._int_mm(lhs, rhs)
    assert shadow.seen


def test_weight_int8pack_mm():
    weight = torch.randint(-128, 127, (32, 64), dtype=torch.int8)
    with Shadow(skip=OTHERS, rtol=2e-2, atol=2e-1) as shadow:
        torch._weight_int8pack_mm(
            torch.randn(4, 64, dtype=torch.bfloat16), weight, torch.rand(32, dtype=torch.bfloat16)
        )
    assert shadow.seen


FLOAT8 = [torch.float8_e4m3fn, torch.float8_e5m2]


def scales_of(rowwise):
    if rowwise:
        return torch.rand(16, 1), torch.rand(1, 48)
    return torch.tensor(0.5), torch.tensor(2.0)


@pytest.mark.parametrize("rowwise", [False, True], ids=["one scale", "a scale per row"])
@pytest.mark.parametrize("rhs_dtype", FLOAT8, ids=str)
@pytest.mark.parametrize("lhs_dtype", FLOAT8, ids=str)
def test_scaled_mm(lhs_dtype, rhs_dtype, rowwise):
    lhs, rhs = torch.randn(16, 32).to(lhs_dtype), torch.randn(48, 32).to(rhs_dtype).T
    scales, bias = scales_of(rowwise), torch.randn(48, dtype=torch.bfloat16)
    with Shadow(skip=OTHERS) as shadow:
        for out_dtype in (None, torch.float32, torch.bfloat16, torch.float16, *FLOAT8):
            torch._scaled_mm(lhs, rhs, *scales, out_dtype=out_dtype)
            torch._scaled_mm(lhs, rhs, *scales, bias=bias, out_dtype=out_dtype)
            torch._scaled_mm(lhs, rhs, *scales, scale_result=torch.tensor(3.0), out_dtype=out_dtype)
    assert shadow.seen == {"aten._scaled_mm.default": 18}


@pytest.mark.parametrize("rowwise", [False, True], ids=["one scale", "a scale per row"])
def test_scaled_mm_by_recipes(rowwise):
    lhs, rhs = (torch.randn(n, 32).to(torch.float8_e4m3fn) for n in (16, 48))
    recipe = ScalingType.RowWise if rowwise else ScalingType.TensorWise
    scale_a, scale_b = scales_of(rowwise)
    with Shadow(skip=OTHERS) as shadow:
        for bias in (None, torch.randn(48, dtype=torch.bfloat16)):
            scaled_mm(lhs, rhs.T, scale_a, recipe, scale_b, recipe, bias=bias)
    assert shadow.seen == {"aten._scaled_mm_v2.default": 2}


def test_narrow_floats_accumulate_in_float32():
    lhs = torch.rand(2, 4096, dtype=torch.bfloat16)
    got = run_rule(aten.mm.default, (lhs, lhs.T.contiguous()), {})
    assert got.dtype == jnp.float32
    assert_close(to_tensor(got, torch.float32), lhs.float() @ lhs.float().T, rtol=1e-4, atol=0)


def test_lowers_for_every_platform():
    with jax.enable_x64(True):
        operand = jnp.asarray(to_array(torch.ones(3, 3, dtype=torch.int64)))
        for platform in ("cpu", "tpu", "cuda"):
            product = jax.jit(lambda lhs, rhs: matmul.mm(lhs, rhs))
            with lowering_for([platform]):
                exported = jax.export.export(product, platforms=[platform])(operand, operand)
            assert ("dot_general" in exported.mlir_module()) == (platform != "tpu")
