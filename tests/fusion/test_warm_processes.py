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
model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.GELU(), torch.nn.Linear(8, 3)).to("tpu")
optimizer = torch.optim.AdamW(model.parameters())
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

VARIABLES = {"TORCH_TPU_ASYNC_COMPILE": "0"}
MODES = ("strict", "fused")


@pytest.mark.parametrize("mode", MODES)
def test_a_second_process_lowers_and_compiles_nothing_and_never_imports_jax(
    run_python, tmp_path, mode
):
    variables = {"TORCH_TPU_CACHE_DIR": str(tmp_path), "TORCH_TPU_EAGER_MODE": mode, **VARIABLES}
    cold, cold_jax, expected = json.loads(run_python(SCRIPT, **variables))
    warm, warm_jax, results = json.loads(run_python(SCRIPT, **variables))
    assert cold["compiles"] > 0 and cold_jax
    assert (warm["compiles"], warm["lowerings"], warm_jax) == (0, 0, False)
    assert warm["disk_hits"] == cold["compiles"] + cold["disk_hits"]
    assert results == expected


def test_programs_that_were_made_in_the_background_serve_the_next_process(run_python, tmp_path):
    variables = {"TORCH_TPU_CACHE_DIR": str(tmp_path), "TORCH_TPU_EAGER_MODE": "fused"}
    script = SCRIPT.replace("range(4):", "range(40):")
    _, _, expected = json.loads(run_python(script, **variables))
    run_python(script, **variables)  # what the first was too short to finish
    warm, _, results = json.loads(run_python(script, **variables))
    assert warm["compiles"] == 0
    assert results == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("mode", MODES)
def test_two_processes_at_once_compile_each_program_once(tmp_path, mode):
    inherited = {key: value for key, value in os.environ.items() if "TORCH_TPU" not in key}
    variables = {"TORCH_TPU_CACHE_DIR": str(tmp_path), "TORCH_TPU_EAGER_MODE": mode, **VARIABLES}
    twins = [
        subprocess.Popen(
            [sys.executable, "-c", SCRIPT],
            stdout=subprocess.PIPE,
            text=True,
            env=inherited | variables | {"OMP_NUM_THREADS": "1"},
        )
        for _ in range(2)
    ]
    (first, _, results), (second, _, others) = (
        json.loads(twin.communicate(timeout=120)[0]) for twin in twins
    )
    made = [each["compiles"] + each["disk_hits"] for each in (first, second)]
    assert made[0] == made[1] == first["compiles"] + second["compiles"]
    assert results == others
