"""A process that has just run backward ends as any other."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from torch_tpu import _C, diagnostics

BACKWARD = """
import torch
x = torch.ones(3, device="tpu", requires_grad=True)
(x * x).sum().backward()
print(x.grad.tolist())
"""


def test_waiting_for_the_threads_of_backward_runs_nothing():
    x = torch.ones(3, device="tpu", requires_grad=True)
    (x * x).sum().backward()
    before = diagnostics.counters()
    _C.finish_backward()
    assert diagnostics.counters() == before


@pytest.mark.slow
def test_processes_that_end_right_after_backward_end_well(run_python):
    # On processors that are busy: the thread of backward is still at it when the process ends.
    with ThreadPoolExecutor(6) as pool:
        printed = list(pool.map(run_python, [BACKWARD] * 36))
    assert printed == ["[2.0, 2.0, 2.0]"] * 36
