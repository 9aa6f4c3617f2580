"""What the op database finds at odds with the CPU, and why, by dtype and way to call.

``op_samples.py`` counts these apart. They are what its first two samples show; test_op_db.py looks
at one, in float32.
"""

ROW_MAJOR = "lengths that values decide come row-major, PyTorch's are column-major"
NO_HALF_COMPLEX = "XLA has no complex type of half precision"
NO_SPARSE = "no sparse layouts on tpu"
TIES = "which of equal elements comes first is not defined"
ZERO_STAND_INS = "the metadata's stand-ins for integers are zeros, by which the CPU kernel divides"

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
        "__rmod__": ZERO_STAND_INS,
        "div.floor_rounding": ZERO_STAND_INS,
        "div.trunc_rounding": ZERO_STAND_INS,
        "floor_divide": ZERO_STAND_INS,
        "fmod": ZERO_STAND_INS,
        "kthvalue": TIES,
        "remainder": ZERO_STAND_INS,
        "topk": TIES,
        "unravel_index": ZERO_STAND_INS,
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
        "as_strided_scatter": "it writes outside the view that the rule is given",
        "nn.functional.embedding_bag": "what the CPU fills depends on the weight's strides",
    },
}


def reasons(dtype: str, variant: str) -> dict[str, str]:
    """The ops that are known to fail in a run, and why."""
    return FUNCTIONAL | BY_DTYPE.get(dtype, {}) | BY_VARIANT.get(variant, {})
