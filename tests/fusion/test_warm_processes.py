"""A second process finds every program on disk; two at once compile each program once."""

import json
import os
import subprocess
import sys

import pytest

SCRIPT = """
import json, sys
import torch, torch_tpu
torch.manual_seed(0)
model = torch.nn.Linear(6, 3).to("tpu")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
rows = torch.randn(4, 6).to("tpu")
losses = []
for _ in range(4):
    loss = torch.nn.functional.cross_entropy(model(rows), torch.arange(4, device="tpu") % 3)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    losses.append(loss.item())
picked = rows[rows > 0].sum().item()
counts = torch_tpu.diagnostics.counters()
print(json.dumps([counts, "jax" in sys.modules, losses + [picked]]))
"""

FUSED = {"TORCH_TPU_EAGER_MODE": "fused"}


def start(environment):
    """The script in a process of its own, with only these of the package's variables."""
    inherited = {key: value for key, value in os.environ.items() if "TORCH_TPU" not in key}
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT],
        stdout=subprocess.PIPE,
        text=True,
        env=inherited | environment | {"OMP_NUM_THREADS": "1"},
    )


def report(process):
    """Its counters, whether it imported JAX, and its numbers."""
    return json.loads(process.communicate(timeout=120)[0])


@pytest.fixture(scope="module", params=["strict", "fused"])
def processes(request, tmp_path_factory):
    """Two processes that began together with an empty cache, and one after them."""
    environment = {
        "TORCH_TPU_CACHE_DIR": str(tmp_path_factory.mktemp("cache")),
        "TORCH_TPU_EAGER_MODE": request.param,
        "TORCH_TPU_ASYNC_COMPILE": "0",
    }
    together = [start(environment) for _ in range(2)]
    return [*map(report, together), report(start(environment))]


def made(counts):
    return counts["compiles"] + counts["disk_hits"]


def test_two_processes_at_once_compile_each_program_once(processes):
    (first, _, results), (second, _, others), _ = processes
    assert made(first) == made(second) == first["compiles"] + second["compiles"]
    assert results == others


def test_a_later_process_lowers_and_compiles_nothing_and_never_imports_jax(processes):
    (first, first_jax, expected), _, (later, later_jax, results) = processes
    assert first_jax and not later_jax
    assert (later["compiles"], later["lowerings"]) == (0, 0)
    assert later["disk_hits"] == made(first)
    assert results == expected


def test_programs_that_were_made_in_the_background_serve_the_next_process(run_python, tmp_path):
    environment = {"TORCH_TPU_CACHE_DIR": str(tmp_path)} | FUSED
    finish = "\nfrom torch_tpu import workers\nworkers.submit('compile', lambda: None).result()\n"
    _, _, expected = json.loads(run_python(SCRIPT + finish, **environment))
    later, later_jax, results = json.loads(run_python(SCRIPT, **environment))
    assert (later["compiles"], later["lowerings"], later_jax) == (0, 0, False)
    assert results == pytest.approx(expected, rel=1e-5)
