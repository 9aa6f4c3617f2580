"""What TORCH_LOGS=tpu says, and Dynamo's own ways to look at what it captured."""

import logging
import re

import pytest
import torch

SCRIPT = """
import torch, torch_tpu
def function(x):
    return torch.sin(x) * 2
torch.compile(function, backend="tpu")(torch.ones(3, device="tpu"))
"""


@pytest.fixture
def messages(caplog):
    """What was logged."""
    caplog.set_level(logging.INFO, "torch_tpu")
    return lambda: [
        record.getMessage() for record in caplog.get_records("call") if "torch_tpu" in record.name
    ]


def compiled(function, *inputs, **settings):
    return torch.compile(function, backend="tpu", **settings)(*inputs)


def found(messages, pattern):
    """The messages that match, each once: pytest may hear of one twice."""
    return sorted({each for each in messages() if re.search(pattern, each)})


def test_torch_logs_tpu_shows_each_graph_and_each_program(run_python):
    shown = run_python(SCRIPT + "raise SystemExit(1)", error=True, TORCH_LOGS="tpu")
    assert "graph 0/0 inference: 2 nodes, 1 inputs, 1 outputs, sizes fixed" in shown
    assert "graph 0/0 inference of 2 nodes: a program with 1 inputs, 0 donated, " in shown
    assert "torch.ops.aten.sin" not in shown


def test_torch_logs_plus_tpu_shows_the_graphs_text(run_python):
    shown = run_python(SCRIPT + "raise SystemExit(1)", error=True, TORCH_LOGS="+tpu")
    assert 'v0: "f32[3]" = torch.ops.aten.sin.default(a0)' in shown


def test_nothing_is_said_unasked(run_python):
    assert run_python(f"{SCRIPT}print('ran')") == "ran"


def test_set_logs_knows_the_name():
    try:
        torch._logging.set_logs(modules={"tpu": logging.INFO})
        assert logging.getLogger("torch_tpu.dynamo.logs").isEnabledFor(logging.INFO)
    finally:
        torch._logging.set_logs()
    assert not logging.getLogger("torch_tpu.dynamo.logs").isEnabledFor(logging.INFO)


def test_a_program_says_whether_it_was_compiled_or_found(messages):
    shape = (3, int(torch.randint(10_000, (1,))) + 2)  # the cache outlives a test run
    compiled(lambda x: x * 2, torch.ones(shape, device="tpu"))
    assert len(found(messages, "compiled in")) == 1
    assert not found(messages, "found in the cache")
    torch._dynamo.reset()
    compiled(lambda x: x * 2, torch.ones(shape, device="tpu"))
    assert len(found(messages, r"found in the cache in \d+\.\d\d s")) == 1


def test_a_program_says_how_many_inputs_it_reuses(messages):
    x = torch.zeros(3, device="tpu")
    compiled(lambda x: x.add_(1), x)
    assert len(found(messages, "1 inputs, 1 donated")) == 1


def test_a_training_step_has_a_forward_and_a_backward(messages):
    x = torch.randn(3, device="tpu", requires_grad=True)
    compiled(lambda x: torch.sin(x).sum(), x).backward()
    assert found(messages, r"graph \d+/\d+ forward: ")
    assert found(messages, r"graph \d+/\d+ backward: ")


def test_stages_say_what_runs_on_the_host_where_and_why(messages):
    def function(x):
        return torch.sin(x.cpu() + 1).to("tpu") * 2

    # A graph from a cache has the lines that it was captured at.
    compiled(function, torch.ones(3, device="tpu"), options={"serializable": False})
    assert found(messages, r"graph \d+/\d+ inference: \d stages")
    line = f"{re.escape(__file__)}:{function.__code__.co_firstlineno + 1}"
    assert found(messages, f"aten::sin at {line} .* runs on the host: its result is on the CPU")


def test_open_sizes_are_named(messages):
    compiled(lambda x: x * 2, torch.ones(5, device="tpu"), dynamic=True)
    assert found(messages, r"sizes open: s\d+")


def test_sizes_that_the_code_needed_are_named_with_their_values(messages):
    def function(x):
        return x * 2 if x.shape[0] == 5 else x

    compiled(function, torch.ones(5, 7, device="tpu"), dynamic=True)
    assert found(messages, r"specialised: L\['x'\]\.size\(\)\[0\] = 5")


def test_dynamo_says_why_it_recompiles(caplog):
    try:
        torch._logging.set_logs(recompiles=True)
        function = torch.compile(lambda x: x * 2, backend="tpu", dynamic=False)
        with caplog.at_level(logging.DEBUG, "torch._dynamo"):
            for size in (3, 4):
                function(torch.ones(size, device="tpu"))
    finally:
        torch._logging.set_logs()
    assert "Recompiling function" in caplog.text
    assert re.search("size mismatch at index 0. expected 3, actual 4", caplog.text)


def test_dynamo_explains_a_function_of_tpu_tensors():
    def function(x):
        x = torch.sin(x)
        torch._dynamo.graph_break()
        return torch.cos(x)

    explained = torch._dynamo.explain(function)(torch.ones(3, device="tpu"))
    assert (explained.graph_count, explained.graph_break_count) == (2, 1)
    assert explained.op_count == 2
