"""torch.compile without a backend's name: graphs on tpu run there, all others as ever."""

import pytest
import torch
from torch._inductor import compile_fx
from torch._inductor.graph import GraphLowering
from torch._inductor.utils import fresh_cache

from torch_tpu.dynamo import backend, default


def double(x):
    return torch.sin(x) * 2


@pytest.fixture
def inductor(monkeypatch):
    """The graphs that inductor is asked to compile, with what it is told; they run eagerly."""
    asked = []

    def compile_fx_eagerly(module, inputs, **settings):
        asked.append(settings)
        return module.forward

    monkeypatch.setattr(compile_fx, "compile_fx", compile_fx_eagerly)
    return asked


@pytest.fixture
def ours(monkeypatch):
    """The settings of the graphs that our backend is asked to compile."""
    asked, compiler = [], backend.tpu

    def counted(module, inputs, **settings):
        asked.append(settings)
        return compiler(module, inputs, **settings)

    monkeypatch.setattr(backend, "tpu", counted)
    return asked


@pytest.mark.parametrize("settings", [{}, {"backend": "inductor"}, {"mode": "reduce-overhead"}])
def test_a_function_of_tpu_tensors_is_compiled_by_our_backend(settings, inductor, ours):
    x = torch.randn(5)
    torch.testing.assert_close(torch.compile(double, **settings)(x.to("tpu")).cpu(), double(x))
    assert len(ours) == 1
    assert inductor == []


def test_a_model_on_tpu_trains_with_default_arguments(inductor, ours):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.Linear(8, 1))
    twin = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.Linear(8, 1))
    twin.load_state_dict(model.state_dict())
    x = torch.randn(3, 4)
    twin(x).sum().backward()
    model.to("tpu")
    torch.compile(model)(x.to("tpu")).sum().backward()
    for ours_, expected in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(ours_.grad.cpu(), expected.grad)
    assert (len(ours), inductor) == (1, [])


def test_a_graph_without_inputs_that_makes_tpu_tensors_is_ours(inductor, ours):
    made = torch.compile(lambda: torch.ones(3, device="tpu") * 2)()
    torch.testing.assert_close(made.cpu(), torch.full((3,), 2.0))
    assert (len(ours), inductor) == (1, [])


def test_a_graph_that_moves_cpu_tensors_to_tpu_is_ours(inductor, ours):
    x = torch.randn(3)
    moved = torch.compile(lambda x: x.to("tpu") + 1)(x)
    torch.testing.assert_close(moved.cpu(), x + 1)
    assert (len(ours), inductor) == (1, [])


@pytest.mark.parametrize(
    ("settings", "patches"),
    [
        ({}, {}),
        ({"mode": "max-autotune-no-cudagraphs"}, {"max_autotune": True}),
        ({"options": {"max_autotune": True, "epilogue_fusion": False}}, None),
    ],
)
def test_a_function_of_cpu_tensors_goes_to_inductor_with_its_settings(
    settings, patches, inductor, ours
):
    x = torch.randn(5)
    torch.testing.assert_close(torch.compile(double, **settings)(x), double(x))
    (asked,) = inductor
    expected = settings["options"] if patches is None else patches
    assert expected.items() <= asked["config_patches"].items()
    assert ours == []


def test_one_compiled_function_serves_both_devices(inductor, ours):
    function, x = torch.compile(double), torch.randn(5)
    torch.testing.assert_close(function(x), double(x))
    torch.testing.assert_close(function(x.to("tpu")).cpu(), double(x))
    assert (len(ours), len(inductor)) == (1, 1)


def test_our_options_are_taken_aside_and_inductors_kept(inductor, ours):
    options = {"donate": False, "xla_cpu_enable_fast_math": False, "max_autotune": True}
    function, x = torch.compile(double, options=dict(options)), torch.randn(5)
    function(x)
    function(x.to("tpu"))
    assert inductor[0]["config_patches"] == {"max_autotune": True}
    assert ours[0]["options"] == {"donate": False, "xla_cpu_enable_fast_math": False}


def test_the_name_of_a_region_names_its_graphs(ours, inductor):
    torch.compile(double, name="doubling")(torch.randn(5, device="tpu"))
    assert ours[0]["options"] == {"custom_module_name": "doubling"}


def test_the_same_function_compiled_with_other_options_is_compiled_anew(ours, inductor):
    x = torch.randn(5, device="tpu")
    for options in ({"donate": True}, {"donate": False}):
        torch.compile(double, options=options)(x)
    assert [asked["options"] for asked in ours] == [{"donate": True}, {"donate": False}]


MISTAKES = """
import torch
for settings in ({"options": {"bogus": 1}}, {"options": {"max_autotune": "yes"}}, {"mode": "fast"}):
    try:
        torch.compile(torch.nn.Linear(1, 1), **settings)
    except Exception as error:
        print(type(error), error)
"""


def test_mistakes_raise_what_torch_raises_without_us(run_python):
    code = f"import sys{MISTAKES}print('torch_tpu' in sys.modules)\nimport torch_tpu{MISTAKES}"
    shown = run_python(code, TORCH_DEVICE_BACKEND_AUTOLOAD="0").splitlines()
    alone, registered, ours = shown[:3], shown[3], shown[4:]
    assert [line.split(maxsplit=3)[:3] for line in alone[:2]] == [
        ["<class", "'RuntimeError'>", "Unexpected"]
    ] * 2
    assert registered == "False"
    assert ours == alone


def test_a_mistake_in_our_option_is_raised_by_torch_compile():
    with pytest.raises(ValueError, match="option donate='no' is not understood"):
        torch.compile(double, options={"donate": "no"})


def test_torch_keeps_its_own_classes():
    assert torch._TorchCompileInductorWrapper.__module__ == "torch"
    one, other = (torch._TorchCompileInductorWrapper("default", None, None) for _ in "12")
    assert one == other
    assert issubclass(torch._TorchCompileAOTInductorWrapper, torch._TorchCompileInductorWrapper)


def test_cpu_code_is_generated_by_inductor_itself(monkeypatch):
    generated, codegen = [], GraphLowering.codegen
    monkeypatch.setattr(
        GraphLowering, "codegen", lambda graph: generated.append(graph) or codegen(graph)
    )
    x = torch.randn(5, 5)
    with fresh_cache():  # a product alone is no C++ that would have to be compiled
        torch.testing.assert_close(torch.compile(torch.mm)(x, x), x @ x)
    assert len(generated) == 1


def test_tensors_tell_which_backend_a_graph_is_for():
    module = torch.fx.symbolic_trace(double)
    assert default.uses_tpu(module, [torch.empty(1, device="tpu")])
    assert not default.uses_tpu(module, [torch.empty(1), 3])
    assert default.uses_tpu(torch.nn.Linear(1, 1, device="tpu"), [])
