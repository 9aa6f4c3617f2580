"""What fused mode ran is told: each flush, why, whether its program existed, and what was new."""

import dataclasses
import json
import re
from pathlib import Path

import pytest
import torch

import torch_tpu
from torch_tpu import _C, diagnostics
from torch_tpu.compiler.node import Edge, Node, Number, Plan, Slot
from torch_tpu.diagnostics import difference, flushes


@pytest.fixture(autouse=True)
def fused():
    """Fused mode without background compilation, beginning with nothing recorded."""
    _C.set_async_compile(False)
    torch.tpu.set_eager_mode("strict")
    with torch.tpu.set_eager_mode("fused"):
        yield
    _C.set_async_compile(True)


def explained(function, *arguments):
    torch.tpu.synchronize()
    with diagnostics.explain(quiet=True) as report:
        function(*arguments)
        torch.tpu.synchronize()
    return report


def differences(*calls):
    """What is new in the program of the second call."""
    torch.tpu.synchronize()
    for call in calls:
        report = explained(call)
    return [flush.difference for flush in report.flushes]


def source_of(where):
    file, line = where.split(":")
    return Path(file).read_text().splitlines()[int(line) - 1]


def scaled(x, factor=2.0):
    return ((x * factor).exp() + 1).sum().item()


def shifted(x, amount):
    return ((x + amount).exp() * 2).sum().item()


def test_a_flush_tells_ops_reason_outputs_kept_and_the_line():
    x = torch.ones(3, 5, device="tpu")
    torch.tpu.synchronize()
    with diagnostics.explain(quiet=True) as report:
        y = (x + 1).exp()
        y.cpu()
    (flush,) = report.flushes
    assert flush.ops == 2
    assert flush.reason == "value read"
    assert (flush.kept, flush.bytes) == (1, 60)
    assert source_of(flush.where).strip() == "y.cpu()"


def test_a_program_is_compiled_or_loaded_once_and_then_found_in_memory():
    x = torch.ones(3, 7, device="tpu")
    first, second = explained(scaled, x), explained(scaled, x)
    assert [flush.outcome for flush in first.flushes] in ([flushes.COMPILED], [flushes.LOADED])
    assert [flush.outcome for flush in second.flushes] == [flushes.FOUND]
    assert second.flushes[0].hit and not second.flushes[0].miss


def test_a_training_step_flushes_after_the_backward_pass_and_after_the_optimizer():
    model = torch.nn.Linear(4, 2).to("tpu")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.ones(3, 4, device="tpu")

    def step():
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()

    report = explained(step)
    assert [flush.reason for flush in report.flushes] == ["end of backward", "optimizer step"]


@pytest.mark.parametrize(
    ("then", "second", "expected"),
    [
        (torch.sin, lambda: torch.ones(27, 5), "dim 0 of self: 32 -> 27"),
        (torch.cos, lambda: torch.ones(2, 32, 5), "shape of self: (32, 5) -> (2, 32, 5)"),
        (torch.tan, lambda: torch.ones(32, 5).double(), "dtype of self: float32 -> float64"),
        (torch.sinh, lambda: torch.ones(5, 32).t(), "strides of self: (5, 1) -> (1, 32)"),
        (torch.cosh, lambda: torch.ones(2, 32, 5)[1], "offset of self: 0 -> 160"),
        (torch.asinh, lambda: torch.ones(7, 32, 5)[0], "storage of self: float32 (32, 5)"),
    ],
    ids=["a dim", "rank", "dtype", "layout", "offset", "storage"],
)
def test_what_differs_in_a_tensor_is_named(then, second, expected):
    # Another op in each case: the nearest earlier program is then the first of the case.
    first, second = torch.ones(32, 5).to("tpu"), on_tpu(second())
    (found,) = differences(*(lambda x=x: then(x + x).cpu() for x in (first, second)))
    assert re.match(r"op 1 \(aten::add\.Tensor.*\): " + re.escape(expected), found)


def on_tpu(tensor):
    """The same view of the same storage, on the device."""
    base = tensor._base if tensor._base is not None else tensor
    return torch.as_strided(base.to("tpu"), tensor.size(), tensor.stride(), tensor.storage_offset())


def test_what_differs_in_a_number_is_named():
    x = torch.ones(32, 6, device="tpu")
    (found,) = differences(lambda: (x.sum(0) + 1).cpu(), lambda: (x.sum(1) + 1).cpu())
    assert re.fullmatch(r"op 1 \(aten::sum\.dim_IntList.*\): dim: \[0\] -> \[1\]", found)


def branches(x, *, other=False, longer=False, keep=False):
    y = x * 0.5
    y = y.atan() if other else y.erf()
    z = y.ceil() if longer else y
    z.cpu()
    return z if keep else None


def test_another_op_and_another_end_are_told_with_the_line():
    x = torch.ones(3, 11, device="tpu")
    explained(branches, x)
    explained(branches, x)  # so that it is known what follows it
    (other,) = explained(lambda: branches(x, other=True)).flushes
    found = re.fullmatch(r"op 2 \(aten::atan, (.*)\), not aten::erf", other.difference)
    assert "y.atan()" in source_of(found.group(1))
    explained(branches, x)
    explained(branches, x)
    (longer,) = explained(lambda: branches(x, longer=True)).flushes

    found = re.fullmatch(r"goes on with op 3 \(aten::ceil, (.*)\)", longer.difference)
    assert "y.ceil()" in source_of(found.group(1))
    (kept,) = explained(lambda: branches(x, keep=True)).flushes
    assert kept.difference in ("", difference.SAME_CALLS)


def test_a_number_that_only_its_value_changes_needs_no_other_program():
    x = torch.ones(32, 8, device="tpu")
    explained(shifted, x, 2.0)
    (flush,) = explained(shifted, x, 3.0).flushes
    assert flush.outcome == flushes.FOUND


def test_strict_mode_has_nothing_to_explain(capsys):
    with torch.tpu.set_eager_mode("strict"), diagnostics.explain() as report:
        torch.ones(3, device="tpu") + 1
    assert report.flushes == []
    assert capsys.readouterr().err == "torch_tpu: nothing was fused (eager mode: strict)\n"


def test_the_table_gathers_flushes_that_are_alike(capsys):
    x = torch.ones(3, 9, device="tpu")
    explained(scaled, x)
    with diagnostics.explain():
        for _ in range(3):
            scaled(x)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "torch_tpu: what fused mode ran"
    assert lines[1].split() == ["times", "why", "ops", "program", "kept", "where"]
    assert re.match(r" *3  value read +4  found in memory  1 \(4 bytes\)  \S+py:\d+$", lines[2])
    assert lines[3:] == [
        "12 ops in 3 flushes: 3 value read",
        "3 hits (3 in memory, 0 on disk), 0 misses; 0 programs compiled",
    ]


def test_blocks_nest_and_each_has_its_own_flushes():
    x = torch.ones(3, 9, device="tpu")
    torch.tpu.synchronize()
    with diagnostics.explain(quiet=True) as outer:
        scaled(x)
        with diagnostics.explain(quiet=True) as inner:
            scaled(x)
        scaled(x)
    scaled(x)
    assert (len(outer.flushes), len(inner.flushes)) == (3, 1)


def test_the_numbers_of_the_extension_have_their_words():
    def members(path, enum):
        text = (Path(torch_tpu.__file__).parents[1] / path).read_text()
        body = re.search(rf"enum class {enum} : uint8_t {{(.*?)}}", text, re.DOTALL).group(1)
        return re.findall(r"\bk[A-Z]\w+", re.sub(r"//.*", "", body))

    reasons = members("csrc/device/runtime.h", "FlushReason")
    assert len(reasons) == len(flushes.REASONS)
    assert reasons.index("kBackward") == flushes.REASONS.index("end of backward")
    assert reasons.index("kBudget") == flushes.REASONS.index("long trace")
    outcomes = members("csrc/eager/explain.h", "Outcome")
    assert len(outcomes) == len(flushes.OUTCOMES)
    assert outcomes.index("kChurning") == flushes.OUTCOMES.index(flushes.CHURNING)
    assert outcomes.index("kCompiled") == flushes.OUTCOMES.index(flushes.COMPILED)
    assert outcomes.index("kNothing") == flushes.OUTCOMES.index(flushes.NOT_NEEDED)


def plan(op, *arguments, slots=()):
    node = Node(op, list(arguments), list(slots), 0, 0)
    return Plan(node, None, None, "highest", [], [], [], [], [])


def test_other_ops_ends_and_equal_calls_have_their_own_words():
    relu, exp = plan("aten::relu"), plan("aten::exp")
    assert difference.between(3, None, None) == difference.SAME_CALLS
    assert difference.between(3, relu, None) == "ends before op 4 (aten::relu)"
    assert difference.between(3, None, exp, "a.py:7") == "goes on with op 4 (aten::exp, a.py:7)"
    assert difference.between(0, relu, exp) == "op 1 (aten::exp), not aten::relu"


def test_lists_numbers_and_settings_have_their_own_words():
    def edge(slot, *sizes):
        return Edge(slot, sizes, (1,) * len(sizes), 0, torch.float32)

    def cat(*sizes, dim=0):
        slots = [Slot((size,), torch.float32, True) for size in sizes]
        edges = [edge(place, size) for place, size in enumerate(sizes)]
        return plan("aten::cat", edges, dim, slots=slots)

    def add(number, precision="highest"):
        made = plan("aten::add.Tensor", edge(0, 3), number, 1, slots=[Slot((3,), None, True)])
        return dataclasses.replace(made, precision=precision)

    whole, real = Number("int", 0, None, True), Number("float", 0, None, True)
    called = "op 1 (aten::cat): "
    assert difference.between(0, cat(3, 4), cat(3, 5)) == called + "dim 0 of tensors[1]: 4 -> 5"
    assert difference.between(0, cat(3), cat(3, 5)) == called + "tensors: 1 tensor -> 2 tensors"
    assert difference.between(0, cat(3), cat(3, dim=1)) == called + "dim: 0 -> 1"
    called = "op 1 (aten::add.Tensor): "
    assert difference.between(0, add(whole), add(real)) == called + "type of other: int -> float"
    settings = add(real), add(real, "high")
    assert difference.between(0, *settings) == called + "precision: highest -> high"


SHAPES = """
import torch
from torch_tpu import _C, diagnostics
_C.set_async_compile(False)
torch.tpu.set_eager_mode("fused")
with diagnostics.explain(quiet=True) as report:
    for length in LENGTHS:
        (torch.ones(length).to("tpu") * 2).exp().sum().item()
print(*(flush.outcome for flush in report.flushes), sep="; ")
"""


@pytest.fixture
def outcomes(run_python, tmp_path):
    """How the flushes of a loop over lengths got their programs, in a process of their own."""

    def run(*lengths):
        code = SHAPES.replace("LENGTHS", str(lengths))
        return run_python(code, TORCH_TPU_CACHE_DIR=str(tmp_path)).split("; ")

    return run


def test_shapes_that_never_come_twice_are_told_from_other_misses(outcomes):
    expected = [*3 * [flushes.COMPILED], flushes.CHURNING, flushes.COMPILED, flushes.FOUND]
    assert outcomes(4, 5, 6, 7, 7, 7) == expected


def test_programs_from_disk_leave_room_for_new_shapes(outcomes):
    assert outcomes(8, 8) == [flushes.COMPILED, flushes.FOUND]
    assert outcomes(8, 8, 9) == [flushes.LOADED, flushes.FOUND, flushes.COMPILED]


SCRIPT = """
import sys
import torch
print(sys.argv[1:], __name__, torch.tpu.get_eager_mode().value)
x = torch.ones(4, device="tpu")
print(((x + 1) * 2).sum().item())
"""


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    return path


def test_the_command_runs_a_script_in_fused_mode_and_explains_it(run_python, script):
    code = f"from torch_tpu.__main__ import main; main(['explain', {str(script)!r}, '-a', 'b'])"
    out = run_python(code + "\n", quiet=False)
    assert out.splitlines() == ["['-a', 'b'] __main__ fused", "16.0"]
    code = f"import sys; sys.stderr = sys.stdout; {code}"
    assert "1 value read" in run_python(code)


def test_the_environment_explains_a_whole_process(run_python):
    code = f"import sys; sys.stderr = sys.stdout\n{SCRIPT}"
    out = run_python(code, TORCH_TPU_EXPLAIN="1", TORCH_TPU_EAGER_MODE="fused")
    assert "torch_tpu: what fused mode ran" in out and "1 value read" in out
    assert run_python("import torch", TORCH_TPU_EXPLAIN="1") == ""


def test_each_flush_is_an_artifact_of_the_structured_trace(run_python, tmp_path):
    run_python(SCRIPT, TORCH_TRACE=str(tmp_path), TORCH_TPU_EAGER_MODE="fused")
    (log,) = tmp_path.iterdir()
    artifact = '{"artifact": {"name": "torch_tpu_flush", "encoding": "json"}'
    _, *entries = log.read_text().split(artifact)
    payload = "\n".join(line for line in entries[-1].splitlines()[1:] if line.startswith("\t"))
    flush = flushes.Flush(**json.loads(payload.split("\n\t}")[0] + "}"))
    assert (flush.reason, flush.ops, flush.where) == ("value read", 4, "<string>:6")
