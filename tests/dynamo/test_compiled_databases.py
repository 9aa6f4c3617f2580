"""A slice of PyTorch's databases compiled; ``make conformance`` runs all of them."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "conformance"))

from databases import DATABASES
from modes import check_entry

SLICE = {
    "ops": (
        "add", "cat", "cumsum", "gather", "index_fill", "linalg.inv", "masked_select", "matmul",
        "nn.functional.batch_norm", "nn.functional.conv2d", "nn.functional.dropout", "nonzero",
        "scatter_reduce.amax", "sort", "where",
    ),
    "modules": ("nn.Conv1d", "nn.Embedding", "nn.GroupNorm", "nn.LSTMCell", "nn.MSELoss"),
    "optimizers": ("Muon",),
}  # fmt: skip
FORMS = {"ops": "functional", "modules": "forward", "optimizers": "for-loop"}
ENTRIES = {
    (database, entry.name): entry for database in SLICE for entry in DATABASES[database].entries()
}
PLACES = [(database, name) for database, names in SLICE.items() for name in names]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("place", PLACES, ids=".".join)
def test_a_compiled_sample_agrees_with_the_cpu(place):
    assert check_entry(ENTRIES[place], samples=1, form=FORMS[place[0]]) > 0
