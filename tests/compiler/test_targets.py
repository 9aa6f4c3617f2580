"""Programs compile for TPUs that are not there, and JAX claims no device while it lowers."""

import jax
import jax.numpy as jnp
import pytest
import torch

from torch_tpu import runtime
from torch_tpu.compiler import decomposition
from torch_tpu.compiler.building import compile_function
from torch_tpu.compiler.target import Topology

needs_libtpu = pytest.mark.skipif(
    runtime.PLUGINS["tpu"].path() is None,
    reason="libtpu is not installed: make conformance-tpu installs it",
)


def _compile_for(target, function, *shapes):
    shapes = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes]
    return compile_function(
        lambda inputs: [function(*(inputs[place] for place in range(len(shapes))))],
        shapes,
        numbers=(0, 0),
        donated=[],
        precision="highest",
        target=target,
    )


@needs_libtpu
def test_a_program_compiles_for_a_topology_without_a_tpu():
    target = Topology("v5e:2x2")
    assert (target.device_count, target.platform) == (4, "tpu")
    program = _compile_for(target, lambda a, b: a @ b, (64, 32), (32, 16)).executable
    assert program.num_outputs == 1
    assert program.run_bytes >= 64 * 16 * 4
    assert b"dot" in program.optimized_program() or b"convolution" in program.optimized_program()
    assert len(program.serialize()) > 1000


@needs_libtpu
def test_libtpu_prints_nothing(run_python):
    code = "from torch_tpu.compiler.target import Topology; print(Topology('v5e:2x2').device_kind)"
    assert run_python(code, quiet=True).strip() == "TPU v5 lite"


@needs_libtpu
def test_what_no_chip_holds_is_refused_when_it_is_compiled():
    with pytest.raises(RuntimeError, match="RESOURCE_EXHAUSTED|exceeds"):
        _compile_for(Topology("v5e:2x2"), lambda a: jnp.cumsum(a) + 1, (2**33,))


@needs_libtpu
def test_an_unknown_topology_is_an_error():
    with pytest.raises(RuntimeError, match="v99"):
        Topology("v99:2x2")


def test_without_libtpu_the_error_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(runtime.PLUGINS, "tpu", runtime.Plugin(("no_such_module",), "x", "tpu"))
    with pytest.raises(RuntimeError, match=r"pip install 'torch_tpu\[tpu\]'"):
        Topology("v5e:2x2")


CLAIMS = """
from jax._src import xla_bridge
claimed = []
xla_bridge.register_backend_factory("fake", lambda: claimed.append(1), priority=500)
import torch
print(torch.ones(3, device="tpu").add(1).tolist())
import jax
assert xla_bridge.backends_are_initialized() and not claimed
assert jax.config.jax_platforms in (None, "")
"""


def test_lowering_claims_no_accelerator(run_python):
    assert run_python(CLAIMS, TORCH_TPU_CACHE="off").strip() == "[2.0, 2.0, 2.0]"


def test_what_a_platform_lacks_runs_on_the_cpu(monkeypatch):
    eigenvalues = torch.ops.aten._linalg_eigvals.default
    assert decomposition.rule_for(eigenvalues) is not None
    monkeypatch.setattr(decomposition, "client_platform", lambda: "tpu")
    assert decomposition.rule_for(eigenvalues) is None
    assert decomposition.rule_for(torch.ops.aten.linalg_cholesky_ex.default) is not None
