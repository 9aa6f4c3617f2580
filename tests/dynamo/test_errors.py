"""A graph that can't be compiled: what the error says, and the script that reproduces it."""

import traceback

import pytest
import torch

from torch_tpu.compiler import store
from torch_tpu.dynamo import errors, minify, text, tracing
from torch_tpu.dynamo.errors import LONGEST, CompileError
from torch_tpu.dynamo.graph import Graph, Node, Ref, TensorMeta
from torch_tpu.dynamo.interpreter import GraphError
from torch_tpu.dynamo.options import Options
from torch_tpu.dynamo.program import GraphSource, whole
from torch_tpu.dynamo.signature import signature_of
from torch_tpu.lowering import registry


@pytest.fixture
def broken(monkeypatch):
    """Makes the rule of an op raise."""

    def rule(*_, **__):
        raise ValueError("this rule is broken")

    def break_rule(overload):
        registry.load_rules()
        monkeypatch.setitem(registry._RULES, overload, registry.Rule(rule))

    yield break_rule
    monkeypatch.undo()


@pytest.fixture
def broken_relu(broken):
    """relu's rule raises."""
    broken(torch.ops.aten.relu.default)


@pytest.fixture
def refused(monkeypatch):
    """The plugin refuses graphs with both a sine and a cosine; the graphs that it was given."""
    given, compile_graph = [], tracing.compile_graph

    def compile_or_refuse(source):
        given.append(source)
        if {"aten::sin", "aten::cos"} <= {node.target for node in source.graph.nodes}:
            raise RuntimeError("INTERNAL: waves everywhere")
        return compile_graph(source)

    monkeypatch.setattr(tracing, "compile_graph", compile_or_refuse)
    return given


def model(x, y):
    product = x @ y
    positive = torch.relu(product)  # the line
    return positive.sum(0) + 1


def waves(x):
    x = torch.exp(x) * 2
    x = torch.sin(x) - 1
    x = x.sqrt()
    x = torch.cos(x)
    return x.sum(0) / 2


def failing(function, *shapes, options=None, **settings):
    """What is raised; programs that other tests left in the cache don't matter."""
    settings["options"] = {"serializable": False, **(options or {})}
    inputs = [torch.ones(shape, device="tpu") for shape in shapes]
    with pytest.raises(CompileError) as raised:
        torch.compile(function, backend="tpu", **settings)(*inputs)
    return raised.value


def line_of(function, offset):
    return f"{__file__}:{function.__code__.co_firstlineno + offset}"


def smallest_part(error):
    """The lines of the part that the message shows."""
    lines = iter(str(error).splitlines())
    assert any(line.startswith("The smallest part that fails") for line in lines)
    return [line.strip() for line in lines if line.startswith("    ")]


def test_a_rules_error_names_the_op_and_the_users_line(broken_relu):
    message = str(failing(model, (3, 4), (4, 5)))
    assert message.startswith(f"torch_tpu: aten::relu at {line_of(model, 2)} ")
    assert "(positive = torch.relu(product)  # the line)" in message
    assert "can't be compiled: this rule is broken" in message


def test_an_error_names_the_graph_and_its_lines(broken_relu):
    message = str(failing(model, (3, 4), (4, 5)))
    assert f"({line_of(model, 1)}-{model.__code__.co_firstlineno + 3})" in message
    assert "inference of 4 nodes" in message


def test_the_smallest_part_is_the_op_alone(broken_relu):
    definition, call, result = smallest_part(failing(model, (3, 4), (4, 5)))
    assert definition == 'def graph(a0: "f32[3, 5]"):'
    assert call.startswith('v0: "f32[3, 5]" = torch.ops.aten.relu.default(a0)')
    assert result == "return (v0,)"


def test_a_rules_error_is_the_cause_and_jax_adds_no_noise(broken_relu):
    error = failing(model, (3, 4), (4, 5))
    assert isinstance(error.__cause__, ValueError)
    shown = "".join(traceback.format_exception(error))
    assert "JAX_TRACEBACK_FILTERING" not in shown
    assert shown.rstrip().endswith("TORCH_TPU_MINIFY=1 writes a script that reproduces it.")


def test_an_error_in_the_backward_says_so(broken):
    broken(torch.ops.aten.threshold_backward.default)
    x = torch.randn(3, device="tpu", requires_grad=True)
    result = torch.compile(lambda x: torch.relu(x).sum(), backend="tpu")(x)
    with pytest.raises(CompileError, match=r"aten::threshold_backward(.|\n)* backward of"):
        result.backward()


def test_an_error_inside_a_branch_is_cut_to_the_branchs_op(broken_relu):
    value = TensorMeta((3,), (1,), torch.float32, "tpu")
    relu = Node("aten::relu", (Ref(0),), {}, value)
    branch = Graph((value,), (relu, Node("aten::abs", (Ref(1),), {}, value)), (Ref(2),))
    choice = TensorMeta((), (), torch.bool, "tpu")
    call = Node("higher_order::cond", (Ref(0), branch, branch, (Ref(1),)), {}, [value])
    first = Node("_operator:getitem", (Ref(2), 0), {}, value)
    graph = Graph((choice, value), (call, first), (Ref(3),))
    source = GraphSource(
        graph,
        signature_of(graph),
        (whole((), torch.bool), whole((3,), torch.float32)),
        donated=(),
        bounds=(),
        exact=frozenset(),
        options=Options(),
        ordinal=0,
        precision="highest",
    )
    error = GraphError(relu, "this rule is broken")
    error.__cause__ = ValueError("this rule is broken")
    assert minify.smallest(source, error, 10).graph == Graph(
        (value,), (Node("aten::relu", (Ref(0),), {}, value),), (Ref(1),)
    )
    assert "def v0_1(a0" in text.function(graph)  # the branches are functions of their own


def test_a_long_graph_is_not_shown_whole(monkeypatch):
    def refuse(source):
        if len(source.graph.nodes) < 60:
            return
        raise RuntimeError("INTERNAL")

    def long(x):
        for _ in range(60):
            x = torch.sin(x)
        return x

    monkeypatch.setattr(tracing, "compile_graph", refuse)
    lines = smallest_part(failing(long, (3,)))
    assert len(lines) == LONGEST
    assert lines[-2:] == ["...  # 23 more", "return (v59,)"]


def test_an_error_of_the_plugin_names_the_graph_and_its_lines(refused):
    message = str(failing(waves, (4, 3)))
    first = waves.__code__.co_firstlineno
    assert message.startswith("torch_tpu: graph ")
    assert f"({__file__}:{first + 1}-{first + 5}) can't be compiled" in message
    assert "INTERNAL: waves everywhere" in message


def test_a_graph_that_the_plugin_refuses_is_cut_to_what_it_refuses(refused):
    calls = smallest_part(failing(waves, (4, 3)))[1:-1]
    assert [call.split(" = ")[1].split("(")[0] for call in calls] == [
        "torch.ops.aten.sin.default",
        "torch.ops.aten.cos.default",
    ]


def test_a_graph_with_open_sizes_is_cut_too(refused):
    lines = smallest_part(failing(waves, (4, 3), dynamic=True))
    assert len([line for line in lines if line.startswith("v")]) == 2
    assert any("shape[0]" in line or "f32[s" in line for line in lines)


def test_memory_that_runs_out_while_compiling_stays_an_out_of_memory_error(monkeypatch):
    def full(source):
        raise torch.OutOfMemoryError("RESOURCE_EXHAUSTED")

    monkeypatch.setattr(tracing, "compile_graph", full)
    with pytest.raises(torch.OutOfMemoryError, match=r"graph .* of 4 nodes .*RESOURCE_EXHAUSTED"):
        torch.compile(model, backend="tpu")(*(torch.ones(3, 3, device="tpu") for _ in "xy"))


def test_the_search_ends_when_its_time_is_up(refused, monkeypatch):
    smallest = minify.smallest
    monkeypatch.setattr(
        errors.minify, "smallest", lambda source, error, seconds: smallest(source, error, 0)
    )
    assert "smallest" not in str(failing(waves, (4, 3)))
    assert len(refused) == 1


def test_what_a_graph_with_open_sizes_is_asked_first_fails_as_well(broken_relu, monkeypatch):
    monkeypatch.setattr(store, "answer", lambda key, label, make: make())
    error = failing(model, (3, 4), (4, 5), dynamic=True)
    assert str(error).startswith(f"torch_tpu: aten::relu at {line_of(model, 2)} ")
    assert "torch.ops.aten.relu.default(a" in smallest_part(error)[-2]


def script_named_in(error):
    (line,) = [each for each in str(error).splitlines() if each.startswith("A script")]
    return line.removeprefix("A script that reproduces it: ")


@pytest.mark.parametrize("dynamic", [False, True])
def test_the_script_fails_in_the_same_way(broken_relu, monkeypatch, tmp_path, dynamic):
    monkeypatch.setenv("TORCH_TPU_MINIFY", "1")
    monkeypatch.chdir(tmp_path)
    script = script_named_in(failing(model, (3, 4), (4, 5), dynamic=dynamic))
    assert script.startswith(str(tmp_path))
    torch._dynamo.reset()
    with open(script) as file, pytest.raises(CompileError, match="this rule is broken"):
        exec(compile(file.read(), script, "exec"), {"__name__": "__main__"})


def test_the_script_runs_where_the_cause_is_gone(monkeypatch, tmp_path, run_python, broken_relu):
    monkeypatch.setenv("TORCH_TPU_MINIFY", "1")
    monkeypatch.chdir(tmp_path)
    script = script_named_in(failing(model, (3, 4), (4, 5)))
    with open(script) as file:
        assert run_python(file.read(), quiet=False).startswith("(tensor(")


def test_the_script_is_written_into_dump_dir(broken_relu, monkeypatch, tmp_path):
    monkeypatch.setenv("TORCH_TPU_MINIFY", "1")
    options = {"dump_dir": str(tmp_path / "dumps")}
    script = script_named_in(failing(model, (3, 4), (4, 5), options=options))
    assert script.startswith(str(tmp_path / "dumps"))


def test_no_script_is_written_unasked(broken_relu, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    failing(model, (3, 4), (4, 5))
    assert list(tmp_path.iterdir()) == []
