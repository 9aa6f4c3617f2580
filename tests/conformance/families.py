"""The families in which the page counts ops: the first rule that an op's name matches decides."""

from __future__ import annotations

import re

# Of the whole name, without what PREFIX has.
RULES = (
    ("sparse and quantised", r"sparse\..*|to_sparse|.*quantiz.*"),
    ("FFT and signal", r"fft\..*|i?stft|signal\..*"),
    (
        "special functions",
        r"special\..*|(mvl|di|l)gamma.*|polygamma.*|igammac?|erf(c|inv)?|i0|sinc|xlogy|logit",
    ),
    (
        "random",
        r"rand.*|normal.*|bernoulli|multinomial|uniform|exponential|cauchy|geometric|log_norm.*",
    ),
    (
        "complex",
        r"real|imag|conj.*|angle|view_as_(real|complex)|complex|polar|c(half|float|double)|resolve_.*|sgn",
    ),
    (
        "nn.functional",
        r"nn\..*|native_.*|.*batch_norm.*|(log_)?softmax.*|.*_softmax.*|.*attention.*|.*max_pool.*|"
        r"upsample.*|grid_sampler.*",
    ),
    (
        "linear algebra",
        r"linalg\..*|.*mm(\..*|_v2)?|addm?[vr]|dot|vdot|mv|inner|outer|ger|kron|cross|einsum|"
        r"tensordot|cholesky.*|lu(_.*)?|.*qr|geqrf|svd.*|pca_lowrank|lstsq|pinverse|logdet|"
        r"matrix_exp|trace|triangular_solve|tri[lu]|norm(\..*)?|renorm|cdist|.*matmul.*|corrcoef|cov",
    ),
    ("pointwise", r"(max|min)\.binary|isinf|copysign|positive|float_power|fmax|fmin"),
    (
        "reductions",
        r"(nan)?(sum|mean|median|quantile)(\..*)?|sum_to_size|prod|(arg|a)(max|min)|aminmax|"
        r"(max|min)\..*|(std|var)(_mean)?(\..*)?|any|all|count_nonzero|mode|kthvalue|logsumexp|"
        r"(log)?cum.*|hist.*|bincount|masked\..*|unique.*|segment_reduce.*|dist|equal|allclose|"
        r"trap.*|hash_tensor",
    ),
    (
        "indexing and shape",
        r"index_.*|gather|scatter.*|take.*|put|masked_.*|unsafe_(masked|chunk|split).*|where|"
        r"(arg|non)(where|zero).*|select.*|slice.*|narrow.*|.*split.*|chunk.*|unbind.*|cat|.*stack|"
        r"reshape.*|view.*|permute.*|transpose.*|t(_copy)?|T|H|m[TH]|(un)?squeeze.*|expand.*|"
        r"repeat.*|tile|flip.*|roll|rot90|movedim|ravel|(un)?flatten|unfold.*|as_strided.*|.*diag.*|"
        r"broadcast.*|(arg|m)?sort|topk|searchsorted|bucketize|resize_.*|contiguous|clone|"
        r".*alias.*|item|to|(new_)?(empty|zeros|ones|full).*|arange|(lin|log)space.*|eye|meshgrid.*|"
        r"tri[lu]_indices|cartesian_prod|combinations|constant_pad_nd|fill|atleast_.*|"
        r"__getitem__|scalar_tensor|isin|b?float(16)?|bool|byte|char|double|half|int|long|short|"
        r"unravel_index|zero_|gradient|diff",
    ),
)
PREFIX = re.compile(r"(_refs|torch|ops|aten)\.|_(?!_)")
OTHERS = "pointwise"
FAMILIES = (OTHERS, *(family for family, _ in RULES if family != OTHERS))


def family_of(name: str) -> str:
    """An op's family; what no rule matches is computed element by element."""
    while found := PREFIX.match(name):
        name = name[found.end() :]
    return next((family for family, rule in RULES if re.fullmatch(rule, name)), OTHERS)
