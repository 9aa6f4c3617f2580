"""Ops with a bounded form give what PyTorch gives for the true sizes, whatever padding holds."""

import bounded_cases_places  # noqa: F401  # adds to CASES
import pytest
from beside import Arguments, compare
from bounded_cases import CASES, REFERENCES
from elementwise_cases import elementwise_case

from torch_tpu.lowering import bounded

NUMBERED = [(op, number) for op, cases in CASES.items() for number in range(len(cases))]
REST = [overload for overload in bounded.table() if overload not in CASES]


@pytest.mark.parametrize(
    ("overload", "number"), NUMBERED, ids=[f"{op}-{number}" for op, number in NUMBERED]
)
def test_padding_never_reaches_a_result(overload, number):
    compare(overload, CASES[overload][number], REFERENCES.get(overload))


@pytest.mark.parametrize("overload", REST, ids=str)
def test_every_other_op_of_the_table_works_element_by_element(overload):
    case = elementwise_case(overload, Arguments)
    assert case is not None, "an op of the table without a case"
    compare(overload, case)
