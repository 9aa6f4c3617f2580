"""Refusals that differ from the CPU's today. One reason a row; a row that passes fails the run."""

import pytest

_RUNTIME = "numbers that are a program's inputs are not looked at by the host"
_VALUES = "the CPU looks at values that tpu sees on the device only"

KNOWN = {
    "randint out of range": _RUNTIME,
    "fill with a complex number": _RUNTIME,
    "kthvalue of too many": _RUNTIME,
    "negative std": _RUNTIME,
    "randint of nothing": _RUNTIME,
    "uniform backwards": _RUNTIME,
    "bernoulli": _RUNTIME,
    "one_hot of too few classes": _VALUES,
    "multinomial": "the sample count is checked while the program is traced",
}


def pytest_collection_modifyitems(items):
    for item in items:
        name = item.name.partition("[")[2].rstrip("]")
        if "errors" in item.nodeid and name in KNOWN:
            item.add_marker(pytest.mark.xfail(reason=KNOWN[name], strict=True))
