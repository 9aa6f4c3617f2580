"""Ops with a bounded form give what PyTorch gives for the true sizes, whatever padding holds."""

import bounded_cases_places  # noqa: F401
import pytest
from beside import compare
from bounded_cases import CASES, REFERENCES

NUMBERED = [(op, number) for op, cases in CASES.items() for number in range(len(cases))]


@pytest.mark.parametrize(
    ("overload", "number"), NUMBERED, ids=[f"{op}-{number}" for op, number in NUMBERED]
)
def test_padding_never_reaches_a_result(overload, number):
    compare(overload, CASES[overload][number], REFERENCES.get(overload))
