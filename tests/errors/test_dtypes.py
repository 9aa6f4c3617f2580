"""Dtypes that an op does not take are refused at the call in CPU PyTorch's words."""

import pytest
import torch
from comparison import assert_same_refusal
from torch.nn import functional as F

F32, F64, I64, BOOL, C64 = torch.float32, torch.float64, torch.int64, torch.bool, torch.complex64


def call(function, *dtypes, sizes=(3, 3), after=(), **options):
    """The mistake of calling a function with square matrices of these dtypes, then ``after``."""

    def mistake(device):
        tensors = [torch.ones(sizes, dtype=dtype, device=device) for dtype in dtypes]
        return function(*tensors, *after, **options)

    return mistake


MISTAKES = {
    "mm of two dtypes": call(torch.mm, F32, F64),
    "mm of large matrices of two dtypes": call(torch.mm, F32, F64, sizes=(300, 300)),
    "bmm of two dtypes": call(torch.bmm, F32, I64, sizes=(2, 2, 2)),
    "addmm of two dtypes": call(torch.addmm, F32, F32, F64),
    "linear of two dtypes": call(F.linear, F32, torch.bfloat16),
    "dot of two dtypes": call(torch.dot, F32, F64, sizes=(3,)),
    "conv2d of two dtypes": call(F.conv2d, F32, F64, sizes=(3, 3, 3, 3)),
    "attention of two dtypes": call(
        F.scaled_dot_product_attention, F32, F64, F64, sizes=(1, 2, 3, 4)
    ),
    "softmax of integers": call(torch.softmax, I64, after=(0,)),
    "log_softmax of large integers": call(torch.log_softmax, I64, sizes=(2048, 2049), after=(0,)),
    "mean of integers": call(torch.mean, I64),
    "mean of large integers": call(torch.mean, I64, sizes=(2048, 2049)),
    "std of integers": call(torch.std, I64),
    "norm of integers": call(torch.linalg.vector_norm, I64),
    "bitwise and of floats": call(torch.bitwise_and, F32, F32),
    "bitwise not of floats": call(torch.bitwise_not, F32),
    "shift of floats": call(torch.bitwise_left_shift, F32, F32),
    "subtraction of bools": call(torch.sub, BOOL, BOOL),
    "negation of bools": call(torch.neg, BOOL),
    "floor of complex numbers": call(torch.floor, C64),
    "comparison of complex numbers": call(torch.lt, C64, C64),
    "maximum of complex numbers": call(torch.maximum, C64, C64),
    "sort of complex numbers": call(torch.sort, C64),
    "clamp of complex numbers": call(torch.clamp, C64, after=(0, 1)),
    "relu of bools": call(torch.relu, BOOL),
    "erfinv into integers": lambda d: torch.ones(3, dtype=I64, device=d).erfinv_(),
    "in-place sum into integers": call(torch.Tensor.add_, I64, F32),
    "in-place division of integers": call(torch.Tensor.div_, I64, I64),
    "in-place sqrt of integers": call(torch.Tensor.sqrt_, I64),
    "in-place sum of complex numbers": call(torch.Tensor.add_, F32, C64),
    "out= of integers": lambda d: torch.add(
        torch.ones(3, device=d), 1, out=torch.ones(3, dtype=I64, device=d)
    ),
    "mm into another dtype": lambda d: torch.mm(
        *[torch.ones(3, 3, device=d)] * 2, out=torch.ones(3, 3, dtype=F64, device=d)
    ),
    "cat into integers": lambda d: torch.cat(
        [torch.ones(3, device=d)] * 2, out=torch.ones(6, dtype=I64, device=d)
    ),
    "alpha of a float for integers": call(torch.add, I64, I64, alpha=1.5),
    "complex alpha": call(torch.add, BOOL, F32, alpha=1.5j),
    "index of floats": lambda d: torch.ones(3, device=d)[torch.ones(2, device=d)],
    "index_select of floats": lambda d: torch.index_select(
        torch.ones(3, device=d), 0, torch.ones(1, device=d)
    ),
    "gather of floats": lambda d: torch.gather(torch.ones(3, device=d), 0, torch.ones(2, device=d)),
    "scatter of two dtypes": lambda d: torch.scatter(
        torch.ones(3, device=d),
        0,
        torch.zeros(2, dtype=I64, device=d),
        torch.ones(2, device=d).double(),
    ),
    "take of floats": call(torch.take, F32, F32),
    "index_add of two dtypes": lambda d: torch.ones(3, device=d).index_add(
        0, torch.zeros(2, dtype=I64, device=d), torch.ones(2, dtype=F64, device=d)
    ),
    "index_put of two dtypes": lambda d: torch.ones(3, device=d).index_put_(
        (torch.zeros(2, dtype=I64, device=d),), torch.ones(2, dtype=F64, device=d)
    ),
    "masked_fill with floats": call(torch.Tensor.masked_fill, F32, F32, after=(1.0,)),
    "masked_select with floats": call(torch.masked_select, F32, F32),
    "masked_scatter of two dtypes": call(torch.Tensor.masked_scatter, F32, BOOL, F64),
    "where with floats": call(torch.where, F32, F32, F32),
    "lerp of two dtypes": call(torch.lerp, F32, F64, after=(0.5,)),
    "embedding of floats": call(F.embedding, F32, F32),
    "embedding_bag of floats": call(F.embedding_bag, F32, F32),
    "cross_entropy of floats": lambda d: F.cross_entropy(
        torch.ones(2, 3, device=d), torch.ones(2, device=d)
    ),
    "nll_loss of floats": lambda d: F.nll_loss(torch.ones(2, 3, device=d), torch.ones(2, device=d)),
    "binary_cross_entropy of two dtypes": call(F.binary_cross_entropy, F32, F64),
    "one_hot of floats": call(F.one_hot, F32),
    "layer_norm of two dtypes": lambda d: F.layer_norm(
        torch.ones(2, 3, device=d), (3,), torch.ones(3, device=d).double()
    ),
    "batch_norm of integers": lambda d: F.batch_norm(
        torch.ones(2, 3, device=d, dtype=I64), None, None, training=True
    ),
    "prelu of two dtypes": lambda d: F.prelu(
        torch.ones(2, 3, device=d), torch.ones(3, device=d).double()
    ),
    "bernoulli of complex numbers": call(torch.Tensor.bernoulli_, C64),
    "cholesky of integers": call(torch.linalg.cholesky, I64),
    "inverse of integers": call(torch.linalg.inv, I64),
    "svd of half": call(torch.linalg.svd, torch.float16),
    "solve of two dtypes": call(torch.linalg.solve, F32, F64),
    "fft of half": call(torch.fft.fft, torch.bfloat16),
    "rfft of complex numbers": call(torch.fft.rfft, C64),
    "cumsum into bools": lambda d: torch.ones(3, device=d, dtype=BOOL).cumsum_(0),
    "bincount of floats": call(torch.bincount, F32, sizes=(3,)),
    "gcd of floats": call(torch.gcd, F32, F32),
    "digamma of complex numbers": call(torch.special.digamma, C64),
    "view_as_complex of integers": call(torch.view_as_complex, I64, sizes=(3, 2)),
    "gradients of integers": lambda d: torch.ones(3, dtype=I64, device=d, requires_grad=True),
    "randn of integers": lambda d: torch.randn(3, dtype=I64, device=d),
    "rand of bools": lambda d: torch.rand(3, dtype=BOOL, device=d),
    "full of nothing": lambda d: torch.full((2,), None, device=d),
    "fill with a complex number": call(torch.Tensor.fill_, F32, after=(1j,)),
    "float of a complex number": lambda d: float(torch.full((1,), 1j, device=d)),
    "integer power": lambda d: torch.ones(3, dtype=I64, device=d) ** -1,
    "quantile of integers": call(torch.quantile, I64, after=(0.5,)),
    "dist of integers": call(torch.dist, I64, I64),
    "type": lambda d: torch.ones(3, device=d).to("float99"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_refused_as_on_the_cpu(name):
    assert_same_refusal(MISTAKES[name])
