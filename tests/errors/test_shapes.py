"""Shapes that don't fit together are refused at the call in CPU PyTorch's words."""

import pytest
import torch
from comparison import assert_same_refusal
from torch.nn import functional as F


def ones(*sizes, **options):
    """A tensor that is made on the device which the mistake is tried on."""
    return lambda device: torch.ones(*sizes, device=device, **options)


def call(function, *arguments, **options):
    """The mistake of calling a function with tensors made by ``ones`` among its arguments."""

    def mistake(device):
        return function(
            *(each(device) if callable(each) else each for each in arguments), **options
        )

    return mistake


def long_zeros(*sizes):
    return lambda device: torch.zeros(*sizes, dtype=torch.long, device=device)


MISTAKES = {
    # products
    "mm": call(torch.mm, ones(2, 3), ones(4, 5)),
    "mm of a vector": call(torch.mm, ones(3), ones(3, 3)),
    "mm of large matrices": call(torch.mm, ones(600, 500), ones(400, 300)),
    "bmm": call(torch.bmm, ones(2, 3, 4), ones(2, 5, 6)),
    "bmm of other batches": call(torch.bmm, ones(2, 3, 4), ones(3, 4, 6)),
    "bmm of matrices": call(torch.bmm, ones(3, 4), ones(4, 6)),
    "addmm": call(torch.addmm, ones(7), ones(2, 3), ones(3, 5)),
    "addmm of large matrices": call(torch.addmm, ones(7), ones(300, 300), ones(300, 500)),
    "addbmm": call(torch.addbmm, ones(2, 2), ones(2, 3, 4), ones(2, 5, 6)),
    "baddbmm": call(torch.baddbmm, ones(2, 2), ones(2, 3, 4), ones(2, 5, 6)),
    "mv": call(torch.mv, ones(2, 3), ones(4)),
    "addmv": call(torch.addmv, ones(2), ones(2, 3), ones(4)),
    "dot": call(torch.dot, ones(3), ones(4)),
    "dot of matrices": call(torch.dot, ones(3, 3), ones(3, 3)),
    "matmul": call(torch.matmul, ones(2, 3), ones(2, 3)),
    "matmul of a number": call(torch.matmul, ones(), ones(3)),
    "matmul of batches": call(torch.matmul, ones(2, 3, 4), ones(3, 4, 5)),
    "linear": call(F.linear, ones(2, 3), ones(4, 5)),
    "linear with a bias": call(F.linear, ones(2, 3), ones(4, 3), ones(5)),
    "einsum": call(torch.einsum, "ij,jk->ik", ones(2, 3), ones(4, 5)),
    "ger": call(torch.ger, ones(2, 2), ones(2)),
    "cross": call(torch.linalg.cross, ones(2, 4), ones(2, 4)),
    # broadcasting
    "add": call(torch.add, ones(2, 3), ones(4)),
    "add of large tensors": call(torch.add, ones(3000, 3000), ones(2000)),
    "in-place add that grows": call(torch.Tensor.add_, ones(3), ones(2, 3)),
    "copy": call(torch.Tensor.copy_, ones(2), ones(3)),
    "where": call(torch.where, ones(2, dtype=torch.bool), ones(3), ones(3)),
    "masked_fill": call(torch.Tensor.masked_fill, ones(3), ones(4, dtype=torch.bool), 1.0),
    "lerp": call(torch.lerp, ones(3), ones(4), 0.5),
    "broadcast_to": call(torch.broadcast_to, ones(3), (2, 4)),
    "expand": call(torch.Tensor.expand, ones(3), 2, 4),
    "expand to fewer dims": call(torch.Tensor.expand, ones(2, 3), 3),
    "broadcast_tensors": call(torch.broadcast_tensors, ones(2), ones(3)),
    # shape changes
    "view": call(torch.Tensor.view, ones(2, 3), 5),
    "view with two unknowns": call(torch.Tensor.view, ones(2, 3), -1, -1),
    "view of a transposed tensor": lambda d: torch.ones(2, 3, device=d).t().view(6),
    "view of other dtypes": call(torch.Tensor.view, ones(3, dtype=torch.int8), torch.float32),
    "reshape": call(torch.reshape, ones(2, 3), (4, -1)),
    "unflatten": call(torch.Tensor.unflatten, ones(2, 6), 1, (4, 2)),
    "flatten": call(torch.flatten, ones(2, 3), 1, 0),
    "repeat": call(torch.Tensor.repeat, ones(2, 3), 2),
    "permute": call(torch.permute, ones(2, 3), (0, 0)),
    "permute of fewer dims": call(torch.permute, ones(2, 3), (0,)),
    "transpose": call(torch.transpose, ones(2, 3), 0, 2),
    "t": call(torch.t, ones(2, 3, 4)),
    "squeeze": call(torch.squeeze, ones(2, 1), 3),
    "unsqueeze": call(torch.unsqueeze, ones(2), 4),
    "movedim": call(torch.movedim, ones(2, 3), (0, 1), (0,)),
    "chunk": call(torch.chunk, ones(4), 0),
    "split": call(torch.split, ones(4), [1, 2]),
    "narrow": call(torch.narrow, ones(4), 0, 2, 5),
    "unfold": call(torch.Tensor.unfold, ones(4), 0, 5, 1),
    "select": call(torch.select, ones(4), 0, 4),
    "diagonal": call(torch.diagonal, ones(2, 3), 0, 1, 1),
    "as_strided": call(torch.as_strided, ones(4), (2, 2), (1,)),
    "negative step": lambda d: torch.ones(4, device=d)[::-1],
    "flip": call(torch.flip, ones(2, 3), (0, 0)),
    "roll": call(torch.roll, ones(2, 3), (1, 2), (0,)),
    "tensor_split": call(torch.tensor_split, ones(4), 0),
    "view_as_real": call(torch.view_as_real, ones(3)),
    "view_as_complex": call(torch.view_as_complex, ones(3, 3)),
    # joining
    "cat": call(lambda a, b: torch.cat([a, b]), ones(2, 3), ones(2, 4)),
    "cat of large tensors": call(lambda a, b: torch.cat([a, b]), ones(3000, 999), ones(3000, 998)),
    "cat of other ranks": call(lambda a, b: torch.cat([a, b]), ones(2, 3), ones(2)),
    "cat of numbers": call(lambda a: torch.cat([a, a]), ones()),
    "cat along no dim": call(lambda a: torch.cat([a, a], 2), ones(2, 3)),
    "stack": call(lambda a, b: torch.stack([a, b]), ones(2), ones(3)),
    "stack along no dim": call(lambda a: torch.stack([a, a], 3), ones(2)),
    "hstack": call(lambda a, b: torch.hstack([a, b]), ones(2, 3), ones(3, 3)),
    # reductions
    "sum over no dim": call(torch.sum, ones(2), 2),
    "sum twice over a dim": call(torch.sum, ones(2, 3), (0, 0)),
    "max of nothing": call(torch.max, ones(0)),
    "max over a negative dim": call(torch.max, ones(2), -3),
    "argmax of nothing": call(torch.argmax, ones(0)),
    "softmax over no dim": call(torch.softmax, ones(2, 3), 2),
    "cumsum over no dim": call(torch.cumsum, ones(2, 3), 2),
    "topk of too many": call(torch.topk, ones(3), 4),
    "kthvalue of too many": call(torch.kthvalue, ones(3), 4),
    "sort over no dim": call(torch.sort, ones(3), 1),
    "median over no dim": call(torch.median, ones(3), 1),
    "quantile": call(torch.quantile, ones(3), 1.5),
    "item of many": call(torch.Tensor.item, ones(3)),
    "bool of many": call(bool, ones(3)),
    "bool of none": call(bool, ones(0)),
    "float of many": call(float, ones(3)),
    "iteration over a number": call(iter, ones()),
    "len of a number": call(len, ones()),
    # indexing
    "too many indices": lambda d: torch.ones(2, device=d)[0, 0],
    "int index": lambda d: torch.ones(2, device=d)[2],
    "mask": lambda d: torch.ones(3, device=d)[torch.ones(4, dtype=torch.bool, device=d)],
    "indices": lambda d: torch.ones(4, 4, device=d)[[0, 1], [0, 1, 2]],
    "assignment": lambda d: torch.ones(3, device=d).__setitem__(slice(0, 2), torch.ones(3)),
    "gather": call(torch.gather, ones(2, 3), 0, long_zeros(3, 4)),
    "gather of other ranks": call(torch.gather, ones(2, 3), 0, long_zeros(3)),
    "scatter": call(torch.scatter, ones(2, 3), 0, long_zeros(3, 4), ones(2, 2)),
    "scatter_add": call(torch.scatter_add, ones(2, 3), 0, long_zeros(2, 4), ones(2, 4)),
    "index_select": call(torch.index_select, ones(2, 3), 0, long_zeros(2, 2)),
    "index_add": call(torch.index_add, ones(2, 3), 0, long_zeros(2), ones(3, 3)),
    "index_copy": call(torch.index_copy, ones(2, 3), 0, long_zeros(2), ones(3, 3)),
    "put": call(torch.Tensor.put_, ones(4), long_zeros(2), ones(3)),
    "masked_scatter": lambda d: torch.ones(3, device=d).masked_scatter(
        torch.ones(4, dtype=torch.bool, device=d), torch.ones(4, device=d)
    ),
    # layers
    "conv1d": call(F.conv1d, ones(1, 3, 8), ones(4, 2, 3)),
    "conv2d": call(F.conv2d, ones(1, 3, 8, 8), ones(4, 2, 3, 3)),
    "conv2d of large inputs": call(F.conv2d, ones(8, 3, 64, 64), ones(4, 2, 3, 3)),
    "conv2d with a wide kernel": call(F.conv2d, ones(1, 3, 2, 2), ones(4, 3, 3, 3)),
    "conv2d with a bias": call(F.conv2d, ones(1, 3, 8, 8), ones(4, 3, 3, 3), ones(5)),
    "conv2d of a matrix": call(F.conv2d, ones(3, 8), ones(4, 3, 3, 3)),
    "conv2d with groups": call(F.conv2d, ones(1, 4, 8, 8), ones(3, 2, 3, 3), groups=2),
    "conv2d with stride 0": call(F.conv2d, ones(1, 3, 8, 8), ones(4, 3, 3, 3), stride=0),
    "conv_transpose2d": call(F.conv_transpose2d, ones(1, 3, 8, 8), ones(4, 2, 3, 3)),
    "max_pool2d": call(F.max_pool2d, ones(1, 1, 2, 2), 3),
    "max_pool2d with padding": call(F.max_pool2d, ones(1, 1, 8, 8), 2, padding=2),
    "avg_pool2d": call(F.avg_pool2d, ones(1, 1, 2, 2), 3),
    "adaptive_avg_pool2d": call(F.adaptive_avg_pool2d, ones(2, 2), (1, 1)),
    "pad": call(F.pad, ones(2), (1, 1, 1, 1)),
    "reflecting pad": call(F.pad, ones(1, 2), (3, 3), mode="reflect"),
    "interpolate": call(F.interpolate, ones(1, 1, 4, 4), size=(2, 2, 2)),
    "pixel_shuffle": call(F.pixel_shuffle, ones(1, 3, 2, 2), 2),
    "grid_sample": call(F.grid_sample, ones(1, 1, 4, 4), ones(2, 3, 3, 2), align_corners=False),
    "layer_norm": call(F.layer_norm, ones(2, 3), (4,)),
    "layer_norm's weight": call(F.layer_norm, ones(2, 3), (3,), ones(4)),
    "layer_norm of large inputs": call(F.layer_norm, ones(2048, 2050), (2049,)),
    "group_norm": call(F.group_norm, ones(2, 5), 2),
    "batch_norm": call(F.batch_norm, ones(2, 3), ones(4), ones(4)),
    "batch_norm of one value": call(F.batch_norm, ones(1, 3), None, None, training=True),
    "instance_norm": call(F.instance_norm, ones(1, 3, 1)),
    "rms_norm": call(F.rms_norm, ones(2, 3), (4,)),
    "glu": call(F.glu, ones(3)),
    "prelu": call(F.prelu, ones(2, 3), ones(4)),
    "bilinear": call(F.bilinear, ones(2, 3), ones(2, 4), ones(5, 3, 3)),
    "embedding": call(F.embedding, long_zeros(2), ones(4)),
    "attention": call(F.scaled_dot_product_attention, ones(2, 3, 4), ones(2, 3, 5), ones(2, 3, 5)),
    "cosine_similarity": call(F.cosine_similarity, ones(2, 3), ones(2, 4)),
    "cdist": call(torch.cdist, ones(2, 3), ones(2, 4)),
    # losses
    "cross_entropy": call(F.cross_entropy, ones(2, 3), long_zeros(3)),
    "cross_entropy's weight": call(F.cross_entropy, ones(2, 3), long_zeros(2), ones(4)),
    "nll_loss": call(F.nll_loss, ones(2, 3), long_zeros(2, 2)),
    "binary_cross_entropy": call(F.binary_cross_entropy, ones(2), ones(3)),
    "bce_with_logits": call(F.binary_cross_entropy_with_logits, ones(2), ones(3)),
    "mse_loss": call(F.mse_loss, ones(2), ones(3)),
    "kl_div": call(F.kl_div, ones(2), ones(3)),
    # linear algebra
    "inverse": call(torch.linalg.inv, ones(2, 3)),
    "cholesky": call(torch.linalg.cholesky, ones(2, 3)),
    "solve": call(torch.linalg.solve, ones(2, 2), ones(3, 2)),
    "det": call(torch.det, ones(2, 3)),
    "eigh": call(torch.linalg.eigh, ones(3)),
    "matrix_power": call(torch.linalg.matrix_power, ones(2, 3), 2),
    "trace": call(torch.trace, ones(3)),
    "tril": call(torch.tril, ones(3)),
    # factories
    "negative size": lambda d: torch.empty(-1, device=d),
    "negative size of zeros": lambda d: torch.zeros(2, -3, device=d),
    "arange backwards": lambda d: torch.arange(3, 0, device=d),
    "arange with step 0": lambda d: torch.arange(0, 3, 0, device=d),
    "linspace of negative steps": lambda d: torch.linspace(0, 1, -1, device=d),
    "eye of a negative size": lambda d: torch.eye(-1, device=d),
    "randperm of a negative size": lambda d: torch.randperm(-1, device=d),
    "ragged list": lambda d: torch.tensor([[1, 2], [3]], device=d),
    "dropout": lambda d: F.dropout(torch.ones(2, device=d), 1.5),
    "multinomial": lambda d: torch.multinomial(torch.ones(2, device=d), 3),
    "clamp without bounds": call(torch.clamp, ones(2)),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_refused_as_on_the_cpu(name):
    assert_same_refusal(MISTAKES[name])
