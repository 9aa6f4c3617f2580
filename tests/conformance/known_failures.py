"""What the op database finds at odds with the CPU, and why, by dtype and way to call.

``op_samples.py`` counts these apart. They are what its first two samples show; test_op_db.py looks
at one, in float32.
"""

ROW_MAJOR = "lengths that values decide come row-major, PyTorch's are column-major"
NO_HALF_COMPLEX = "XLA has no complex type of half precision"
NO_SPARSE = "no sparse layouts on tpu"
TIES = "which of equal elements comes first is not defined"
KEEPS_OUT = "an out= with as many elements keeps its shape on the CPU, other than its result's"
NO_SECOND_DERIVATIVE = "fused attention has none; the CPU fuses no attention of 3 dims"
META_STRIDES = "the meta kernel that is asked lays out= row-major, the CPU kernel column-major"
OUTSIDE_VIEW = "it writes outside the view that the rule is given"
UNWRITTEN_MEAN = "the CPU kernel leaves the mean of an empty batch unwritten"
NO_INDEX = "a program tells which check failed, not the index that failed it"
CPU_IGNORES_STRIDES = "the CPU kernel writes past the strides of out="

FUNCTIONAL = {
    "argwhere": ROW_MAJOR,
    "chalf": NO_HALF_COMPLEX,
    "sparse.mm.reduce": NO_SPARSE,
    "sparse.sampled_addmm": NO_SPARSE,
    "to_sparse": NO_SPARSE,
}

# On top of those above.
BY_DTYPE = {
    "int64": {
        "kthvalue": TIES,
        "topk": TIES,
    },
    "bool": {"argsort": TIES, "sort": TIES},
    "bfloat16": {
        "argsort": TIES,
        "matrix_exp": "the CPU's own result is NaN",
        "msort": TIES,
        "sort": TIES,
        "topk": TIES,
    },
}

# Their samples are of float32.
BY_VARIANT = {
    "noncontiguous": {
        "as_strided_scatter": OUTSIDE_VIEW,
    },
    "out": {
        "cumsum": "PyTorch adds in the dtype of out=, which no rule sees",
        "linalg.lu_solve": META_STRIDES,
        "linspace": KEEPS_OUT,
        "linspace.tensor_overload": KEEPS_OUT,
        "logspace": KEEPS_OUT,
        "logspace.tensor_overload": KEEPS_OUT,
        "lu_solve": META_STRIDES,
        "narrow_copy": CPU_IGNORES_STRIDES,
        "nn.functional.avg_pool3d": CPU_IGNORES_STRIDES,
    },
    "errors": {
        "gather": NO_INDEX,
        "scatter": NO_INDEX,
        "scatter_add": NO_INDEX,
    },
    "gradgrad": {"nn.functional.scaled_dot_product_attention": NO_SECOND_DERIVATIVE},
    "empty": {
        "_unsafe_masked_index_put_accumulate": "the CPU reads what lies behind an empty tensor",
        "nn.functional.conv3d": "the CPU loses the output channels where input channels are none",
        "nn.functional.multi_margin_loss": UNWRITTEN_MEAN,
        "nn.functional.multilabel_margin_loss": UNWRITTEN_MEAN,
    },
    "views": {
        "as_strided_scatter": OUTSIDE_VIEW,
        "linalg.cholesky_ex": "what a factorization that fails leaves is not defined",
        "masked.median": "the CPU's own median of an expanded input is wrong",
        "native_group_norm": "the CPU kernel reads past the strides of weight and bias",
    },
}


def reasons(dtype: str, variant: str) -> dict[str, str]:
    """The ops that are known to fail in a run, and why."""
    return FUNCTIONAL | BY_DTYPE.get(dtype, {}) | BY_VARIANT.get(variant, {})
