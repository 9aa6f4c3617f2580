"""What PyTorch's databases find at odds with the CPU, and why: one table for every kind of run.

A run fails where an entry without a reason fails, and where one with a reason passes. Rows are
what the numbers of samples in plan.py show. Of what is compiled, ``aot_eager`` fails on the CPU
as well, where not said otherwise.
"""

from __future__ import annotations

import dataclasses
import re

ROW_MAJOR = "lengths that values decide come row-major, PyTorch's are column-major"
NO_HALF_COMPLEX = "XLA has no complex type of half precision"
NO_SPARSE = "no sparse layouts on tpu"
TIES = "which of equal elements comes first is not defined"
KEEPS_OUT = "an out= with as many elements keeps its shape on the CPU, other than its result's"
ROUNDED_RANK = "rounding decides how far a matrix of equal rows lacks rank"
REPEATED_PIVOTS = "pivots that repeat along a stride of 0 are no factorization's"
UNWRITTEN_MEAN = "the CPU kernel leaves the mean of an empty batch unwritten"
BEHIND_EMPTY = "the CPU reads what lies behind an empty tensor"
LOSES_CHANNELS = "the CPU loses the output channels where input channels are none"
META_STRIDES = "the meta kernel that is asked lays out= row-major, the CPU kernel column-major"
CPU_IGNORES_STRIDES = "the CPU kernel writes past the strides of out="
META_WORDS = "the meta kernel that is asked words its refusal of an out= differently"
META_INDICES = "the meta kernel that is asked takes an out= of indices in 32 bits"
PRINTS = "PyTorch's message prints the tensors that it refuses, with their device"
OUT_DTYPE = "PyTorch adds in the dtype of out=, which no rule sees"
OUTSIDE_VIEW = "it writes outside the view that the rule is given"
CPU_READS_STRIDES = "the CPU kernel reads past the strides of weight and bias"
CPU_MEDIAN = "the CPU's own median of an expanded input is wrong"
NO_FACTOR = "what a factorization that fails leaves is not defined"
CPU_NAN = "the CPU's own result is NaN"

ANSWER = "its answer, which values decide, is a Python bool"
COMPARES = "it asks whether its weights are equal, and the answer is a Python bool"
NO_FAKE = "PyTorch has no fake kernel for it: lengths that values decide"
RESIZES = "Dynamo traces no resize_"
READS_VARIANCE = "it asks whether a variance is negative, and Dynamo guards on no values"
COUNTS = "without momentum it divides by a count that it reads, and Dynamo guards on no values"
NO_RNN = "Dynamo traces no RNN, GRU or LSTM unless torch._dynamo.config.allow_rnn is set"
LOSES_START = "Dynamo loses a start that is a tensor on any device but the CPU"
TENSOR_INDICES = "AOTAutograd makes no numbers of indices that are a tensor"
STATISTICS = (
    "in evaluation PyTorch promises statistics on all devices but the CPU; rules are the CPU's"
)
NO_LISTS = "Dynamo doesn't trace it, on any device"
REFUSES_FIRST = "Dynamo refuses it first, and adds words of its own"
FAKE_BOOLS = "fake tensors subtract bools, as kernels don't"

INEXACT = "float32,float64,bfloat16,float16,complex64"


@dataclasses.dataclass(frozen=True)
class Known:
    """Entries that fail for one reason: names apart by spaces, the rest by commas; "" is all."""

    why: str
    names: str
    database: str = "ops"
    modes: str = ""
    dtypes: str = ""
    forms: str = ""

    def covers(self, database: str, mode: str, dtype: str, form: str, name: str) -> bool:
        named = not self.names or name in self.names.split()
        if database != self.database or not named:
            return False
        pairs = (self.modes, mode), (self.dtypes, dtype), (self.forms, form)
        return all(not values or value in values.split(",") for values, value in pairs)


TABLE = [
    Known(ROW_MAJOR, "argwhere", forms="functional,noncontiguous,views"),
    Known(NO_HALF_COMPLEX, "chalf"),
    Known(NO_SPARSE, "to_sparse"),
    Known(
        NO_SPARSE,
        "sparse.mm.reduce sparse.sampled_addmm",
        forms="functional,noncontiguous,out,errors,forward AD,gradgrad,empty,views",
    ),
    Known(TIES, "kthvalue topk", dtypes="int64,int32,uint8"),
    Known(TIES, "argsort sort", dtypes="bool,uint8"),
    Known(TIES, "argsort sort topk", dtypes="bfloat16"),
    Known(TIES, "argsort sort", dtypes="float16"),
    Known(TIES, "msort", dtypes="bfloat16,float16", forms="functional,noncontiguous"),
    Known(CPU_NAN, "matrix_exp", dtypes="bfloat16,float16"),
    Known(NO_HALF_COMPLEX, "complex", dtypes="float16"),
    Known(NO_HALF_COMPLEX, "view_as_complex", dtypes="float16", forms="functional"),
    Known(
        OUTSIDE_VIEW,
        "as_strided_scatter",
        dtypes=f"{INEXACT},int64,int32,uint8",
        forms="noncontiguous,views",
    ),
    Known(NO_FACTOR, "linalg.cholesky_ex", forms="views"),
    Known(CPU_MEDIAN, "masked.median", forms="views"),
    Known(
        ROUNDED_RANK,
        "linalg.cond linalg.lstsq linalg.lstsq.grad_oriented linalg.tensorinv",
        forms="views",
    ),
    Known(REPEATED_PIVOTS, "linalg.ldl_solve", forms="views"),
    Known(CPU_READS_STRIDES, "native_group_norm", forms="views"),
    Known(OUT_DTYPE, "cumsum", dtypes=f"{INEXACT},bool", forms="out"),
    Known(META_INDICES, "sort", dtypes="int32", forms="out"),
    Known(META_STRIDES, "linalg.lu_solve lu_solve", forms="out"),
    Known(
        KEEPS_OUT,
        "linspace linspace.tensor_overload logspace logspace.tensor_overload",
        forms="out",
    ),
    Known(META_WORDS, "nonzero", forms="out"),
    Known(META_WORDS, "masked_select", dtypes=f"{INEXACT},int64,uint8,bool", forms="out"),
    Known(PRINTS, "_batch_norm_with_update", forms="out"),
    Known(CPU_IGNORES_STRIDES, "narrow_copy nn.functional.avg_pool3d", forms="out"),
    Known(BEHIND_EMPTY, "_unsafe_masked_index", forms="empty"),
    Known(LOSES_CHANNELS, "nn.functional.conv3d", forms="empty"),
    Known(
        UNWRITTEN_MEAN,
        "nn.functional.multi_margin_loss nn.functional.multilabel_margin_loss",
        forms="empty",
    ),
    # ---- compiled
    Known(STATISTICS, "_native_batch_norm_legit native_batch_norm", modes="compiled"),
    Known(ANSWER, "allclose equal", modes="compiled"),
    Known(COMPARES, "corrcoef cov", modes="compiled"),
    Known(
        NO_FAKE,
        "linalg.lstsq linalg.lstsq.grad_oriented nn.functional.ctc_loss",
        modes="compiled",
    ),
    Known(LOSES_START, "narrow", modes="compiled"),
    Known(READS_VARIANCE, "nn.functional.gaussian_nll_loss", modes="compiled"),
    Known(RESIZES, "resize_ resize_as_", modes="compiled"),
    Known(TENSOR_INDICES, "tensor_split", modes="compiled"),
    Known(COUNTS, "nn.BatchNorm2d nn.BatchNorm3d", "modules", modes="compiled"),
    Known(NO_FAKE, "nn.CTCLoss", "modules", modes="compiled"),
    Known(NO_RNN, "nn.GRU nn.LSTM nn.RNN", "modules", modes="compiled"),
    Known(READS_VARIANCE, "nn.GaussianNLLLoss", "modules", modes="compiled"),
    Known(NO_SPARSE, "SparseAdam", "optimizers"),
    # ---- lists of tensors, and Python references
    Known(NO_LISTS, "_foreach_max _foreach_mm", "foreach", modes="compiled"),
    Known(REFUSES_FIRST, "_foreach_addcdiv _foreach_zero", "foreach", modes="compiled"),
    Known(FAKE_BOOLS, "_foreach_sub", "foreach", modes="compiled"),
    Known(NO_HALF_COMPLEX, "_refs._conversions.chalf", "references"),
]


def reason(database: str, mode: str, dtype: str, form: str, name: str) -> str | None:
    """Why an entry is known to fail in a run; None where it should pass."""
    place = (database, mode, dtype, form, name)
    return next((row.why for row in TABLE if row.covers(*place)), None)


# ---- ops without a lowering

ON_THE_CPU = ((r"aten::.*(sparse|coalesce|_values|_indices|csr|bsr|csc|bsc)", NO_SPARSE),)


def why_on_the_cpu(op: str) -> str:
    """Why an op has no lowering."""
    return next((why for names, why in ON_THE_CPU if re.match(names, op)), "no lowering yet")
