"""What the databases find at odds with eager mode where they are compiled, and why.

``compiled_run.py`` fails where an entry without a reason fails, and where one with a reason passes.
Where not said otherwise ``aot_eager`` fails on the CPU as well.
"""

from known_failures import NO_HALF_COMPLEX, NO_SPARSE, ROW_MAJOR

ANSWER = "its answer, which values decide, is a Python bool"
COMPARES = "it asks whether its weights are equal, and the answer is a Python bool"
NO_FAKE = "PyTorch has no fake kernel for it: lengths that values decide"
RESIZES = "Dynamo traces no resize_"
READS_VARIANCE = "it asks whether a variance is negative, and Dynamo guards on no values"
COUNTS = "without momentum it divides by a count that it reads, and Dynamo guards on no values"
NO_RNN = "Dynamo traces no RNN, GRU or LSTM unless torch._dynamo.config.allow_rnn is set"

STATISTICS = (
    "in evaluation PyTorch promises statistics on all devices but the CPU; rules are the CPU's"
)
DOUBLES = "the database's samples are of float64 alone"

REASONS: dict[str, dict[str, str]] = {
    "ops": {
        "_native_batch_norm_legit": STATISTICS,
        "allclose": ANSWER,
        "argwhere": f"{ROW_MAJOR} (eager mode too)",
        "chalf": f"{NO_HALF_COMPLEX} (eager mode too)",
        "corrcoef": COMPARES,
        "cov": COMPARES,
        "equal": ANSWER,
        "linalg.lstsq": NO_FAKE,
        "linalg.lstsq.grad_oriented": NO_FAKE,
        "narrow": "Dynamo loses a start that is a tensor on any device but the CPU",
        "native_batch_norm": STATISTICS,
        "nn.functional.ctc_loss": NO_FAKE,
        "nn.functional.gaussian_nll_loss": READS_VARIANCE,
        "resize_": RESIZES,
        "resize_as_": RESIZES,
        "sparse.mm.reduce": NO_SPARSE,
        "sparse.sampled_addmm": NO_SPARSE,
        "tensor_split": "AOTAutograd makes no numbers of indices that are a tensor",
        "to_sparse": NO_SPARSE,
    },
    "modules": {
        "nn.BatchNorm2d": COUNTS,
        "nn.BatchNorm3d": COUNTS,
        "nn.CTCLoss": NO_FAKE,
        "nn.FractionalMaxPool2d": DOUBLES,
        "nn.FractionalMaxPool3d": DOUBLES,
        "nn.GRU": NO_RNN,
        "nn.GaussianNLLLoss": READS_VARIANCE,
        "nn.LSTM": NO_RNN,
        "nn.RNN": NO_RNN,
    },
    "optimizers": {"SparseAdam": NO_SPARSE},
}
