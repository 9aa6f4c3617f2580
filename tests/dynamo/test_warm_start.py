"""What a second process need not do again: trace, lower, compile, import JAX."""

import json
import shutil

import pytest

# Each process trains two steps and prints what it did.
TRAIN = """
import json, sys, warnings
warnings.simplefilter("ignore")
import torch, torch_tpu
from torch import nn
from torch._dynamo.utils import counters
from torch_tpu import _C
{before}
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 2)).to("tpu")
x = torch.linspace(-1, 1, 12).reshape(3, 4).to("tpu")
optimizer = torch.optim.AdamW(model.parameters())
run, update = torch.compile(model, backend="tpu"), torch.compile(optimizer.step, backend="tpu")
for _ in range(2):
    loss = run(x).square().mean()
    loss.backward()
    update()
    optimizer.zero_grad()
counts = _C.counters()
{after}
print(json.dumps({{
    "loss": loss.item(),
    "weight": model[0].weight.sum().item(),
    "lowerings": counts["lowerings"],
    "compiles": counts["compiles"],
    "jax": "jax" in sys.modules,
    "generators": "torch._inductor.lowering" in sys.modules,
    **{{name: counters["aot_autograd"][f"autograd_cache_{{name}}"] for name in ("hit", "miss")}},
}}))
"""


SAVE = "open({file!r}, 'wb').write(torch.compiler.save_cache_artifacts()[0])"
LOAD = """
info = torch.compiler.load_cache_artifacts(open({file!r}, "rb").read())
assert len(info.tpu_program_artifacts) > 2
"""
EDITED = """
from torch_tpu.compiler.cache import fingerprint
fingerprint.lowering_version = lambda: "edited"
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder, filled by one process, that each test gets a copy of; what that process did."""
    return tmp_path_factory.mktemp("trained"), {}


@pytest.fixture
def cold(train, trained, tmp_path):
    """What the first process did; what it kept is this test's ``host``, its artifacts a file."""
    folder, done = trained
    if not done:
        done |= train(host=folder, after=SAVE.format(file=str(folder / "artifacts")))
    shutil.copytree(folder, tmp_path / "host")
    return done


@pytest.fixture
def train(run_python, tmp_path):
    """Runs the script in a fresh process; what is kept on disk is named by ``host``."""

    def run(host="host", before="", after="", **environment):
        folders = {
            "TORCH_TPU_CACHE_DIR": str(tmp_path / host / "programs"),
            "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / host / "graphs"),
        }
        code = TRAIN.format(before=before, after=after)
        return json.loads(run_python(code, quiet=False, **folders, **environment).splitlines()[-1])

    return run


def results(done):
    return done["loss"], done["weight"]


def test_a_second_process_traces_lowers_and_compiles_nothing_and_imports_no_jax(cold, train):
    warm = train()
    assert cold["compiles"] > 0 and cold["jax"]
    assert (cold["hit"], warm["miss"]) == (0, 0) and warm["hit"] == cold["miss"] > 0
    assert (warm["lowerings"], warm["compiles"], warm["jax"]) == (0, 0, False)
    assert not warm["generators"], "Inductor's code generators were imported"
    assert results(warm) == results(cold)


def test_another_precision_is_another_entry(cold, train):
    lower = train(before='torch.set_float32_matmul_precision("medium")')
    assert lower["miss"] > 0 and lower["hit"] == 0


def test_another_version_of_the_package_uses_neither_entries_nor_artifacts(cold, train, tmp_path):
    edited = train(before=EDITED + LOAD.format(file=str(tmp_path / "host" / "artifacts")))
    assert (edited["hit"], edited["compiles"]) == (0, cold["compiles"])


def test_a_cache_that_is_off_uses_no_graphs_either(cold, train):
    assert train(TORCH_TPU_CACHE="off")["hit"] == 0


def test_where_pytorchs_cache_is_off_programs_are_still_found(cold, train):
    warm = train(TORCHINDUCTOR_AUTOGRAD_CACHE="0")
    assert (warm["hit"], warm["compiles"]) == (0, 0)


def test_artifacts_carry_graphs_and_programs_to_another_host(cold, train, tmp_path):
    there = train(host="other", before=LOAD.format(file=str(tmp_path / "host" / "artifacts")))
    assert (there["hit"], there["miss"]) == (cold["miss"], 0)
    # What runs op by op, outside of the compiled graphs, is not among them.
    assert 0 < there["compiles"] < cold["compiles"]
    assert results(there) == results(cold)


BOUNDS = """
import torch, torch_tpu, warnings
from torch._dynamo.utils import counters
warnings.simplefilter("ignore")
for most in (8, 8, 64):
    torch._dynamo.reset()
    run = torch.compile(lambda x: x.cumsum(0), backend="tpu")
    x = torch.ones(5, device="tpu")
    torch._dynamo.mark_dynamic(x, 0, min=2, max=most)
    print(run(x)[-1].item(), counters["aot_autograd"]["autograd_cache_hit"])
"""


def test_a_graph_with_another_bound_is_another_entry(run_python, tmp_path):
    folders = {
        "TORCH_TPU_CACHE_DIR": str(tmp_path / "programs"),
        "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "graphs"),
    }
    shown = run_python(BOUNDS, quiet=False, **folders)
    assert shown.splitlines() == ["5.0 0", "5.0 1", "5.0 1"]


CUSTOM = """
import torch, torch_tpu, warnings
from torch._dynamo.utils import counters
warnings.simplefilter("ignore")

@torch.library.custom_op("mine::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return x * {factor}

twice.register_fake(torch.empty_like)
run = torch.compile(lambda x: twice(x.sin()).exp(), backend="tpu")
x = torch.ones(3)
torch.testing.assert_close(run(x.to("tpu")).cpu(), (x.sin() * {factor}).exp())
print("as eager mode")
"""


@pytest.mark.parametrize("factor", [2, 3])
def test_custom_ops_run_the_code_of_their_own_process(run_python, tmp_path_factory, factor):
    folder = tmp_path_factory.getbasetemp() / "custom"
    folders = {
        "TORCH_TPU_CACHE_DIR": str(folder / "programs"),
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "graphs"),
    }
    assert run_python(CUSTOM.format(factor=factor), quiet=False, **folders) == "as eager mode"
