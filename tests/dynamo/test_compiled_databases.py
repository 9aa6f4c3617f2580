"""A slice of PyTorch's databases compiled; ``make compiled-conformance`` runs all of them."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "conformance"))

from compiled_samples import DATABASES, check_entry
from known_compiled_failures import REASONS

ENTRIES = {(each, entry.name): entry for each, make in DATABASES.items() for entry in make()}
SLICE = {
    "ops": (
        "add", "cat", "cumsum", "gather", "index_fill", "linalg.inv", "masked_select", "matmul",
        "nn.functional.batch_norm", "nn.functional.conv2d", "nn.functional.dropout", "nonzero",
        "scatter_reduce.amax", "sort", "where",
    ),
    "modules": ("nn.Conv1d", "nn.Embedding", "nn.GroupNorm", "nn.LSTMCell", "nn.MSELoss"),
    "optimizers": ("Muon",),
}  # fmt: skip
PLACES = [(database, name) for database, names in SLICE.items() for name in names]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("place", PLACES, ids=".".join)
def test_a_compiled_sample_agrees_with_the_cpu(place):
    assert check_entry(ENTRIES[place], samples=1) > 0


def test_every_known_failure_is_an_entry_of_its_database():
    known = {(database, name) for database, names in REASONS.items() for name in names}
    assert known <= ENTRIES.keys()
