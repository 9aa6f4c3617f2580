"""Which of a test's parameters run with ``make test``."""

import pytest


def quick_ones(names, *quick):
    """Names as parameters: those that are not quick run with ``make conformance``."""
    return [name if name in quick else pytest.param(name, marks=pytest.mark.slow) for name in names]
