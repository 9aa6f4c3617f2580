"""Programs of each rule and dtype, recorded while the databases' samples run on the device.

Eager mode asks for a program of each op, torch.compile for one of each graph, whose ops eager mode
takes apart.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import torch
from databases import DATABASES, Entry

from torch_tpu import compiler
from torch_tpu.compiler.building import compile_trace
from torch_tpu.compiler.node import overload_of
from torch_tpu.compiler.target import Target
from torch_tpu.compiler.trace import Trace
from torch_tpu.dynamo import program as graphs
from torch_tpu.dynamo.graph import Graph, target_of
from torch_tpu.dynamo.tracing import compile_graph
from torch_tpu.lowering import registry

# What is run of each database: of modules and optimizers in float32 alone.
FORMS = {
    "ops": ("functional",),
    "foreach": ("functional",),
    "modules": ("forward",),
    "optimizers": ("for-loop", "foreach", "fused"),
}
SAMPLES = 2
DTYPES = torch.float32, torch.bfloat16, torch.int64
COMPILED_DTYPES = torch.float32, torch.int64

Source = tuple[str, Callable[[], None]]


@dataclasses.dataclass(frozen=True)
class Recorded:
    """A program that was asked for: the rules that make it up, and what compiles it."""

    rules: tuple[str, ...]
    compile: Callable[[Target], Any]


def sources(dtype: torch.dtype) -> Iterator[Source]:
    """What is run to record programs: a name, and a function that runs it."""
    for database, forms in FORMS.items():
        has_ops = database in ("ops", "foreach")
        for entry in DATABASES[database].entries():
            if dtype in entry.dtypes and (has_ops or dtype == torch.float32):
                yield entry.name, functools.partial(_run_cases, entry, dtype, forms)
    overloads = [each for each in registry.rules() if not _is_reckless(each)]
    for overload in overloads:
        yield str(overload), functools.partial(_run_schema, overload, dtype)
    if dtype == torch.float32:
        yield from CALLS.items()
    if dtype in COMPILED_DTYPES:
        for entry in DATABASES["ops"].entries():
            if dtype in entry.dtypes:
                run = functools.partial(_run_cases, entry, dtype, FORMS["ops"], "tpu")
                yield f"{entry.name}, compiled", run
        for overload in overloads:
            run = functools.partial(_run_schema, overload, dtype, _compiled)
            yield f"{overload}, compiled", run


def _compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    return torch.compile(
        lambda *args, **kwargs: function(*args, **kwargs), backend="tpu", dynamic=False
    )


def _run_cases(
    entry: Entry, dtype: torch.dtype, forms: tuple[str, ...], backend: str | None = None
) -> None:
    for form in forms:
        for case in itertools.islice(entry.cases(dtype, form), max(SAMPLES, entry.least)):
            case.on("tpu", None, backend)


def _is_reckless(overload: Any) -> bool:
    """Whether calling an op with whatever its schema allows is out of the question.

    CPU PyTorch, which is asked what an op returns, dies of sizes and settings that don't fit; of
    tensors and numbers alone it does not, nor where a view is copied or a tensor made.
    """
    wanted = [each for each in overload._schema.arguments if not each.has_default_value()]
    plain = all(str(each.type) in ("Tensor", "number") for each in wanted)
    makes = any(each.name == "device" for each in overload._schema.arguments)
    copies = overload._schema.name.endswith("_copy")
    batches = "batch_norm" in str(overload)
    return batches or bool(registry.mutated(overload)) or not (plain or makes or copies)


def _run_schema(
    overload: Any, dtype: torch.dtype, wrap: Callable[..., Any] = lambda call: call
) -> None:
    """Call an overload, which the databases may not reach, with what its schema asks for."""
    square = torch.ones(4, 4, dtype=dtype, device="tpu")
    values = {
        "Tensor": square,
        "number": 2,
        "int": 0,
        "List[int]": [0],
    }
    sizes = {"size": [4, 4], "n": 4, "m": 4, "window_length": 4, "high": 9, "end": 9, "steps": 4}
    positional, named = [], {}
    for argument in overload._schema.arguments:
        value = sizes.get(argument.name, values.get(str(argument.type)))
        if argument.name == "device":
            named["device"] = "tpu"
        elif not argument.has_default_value() and argument.kwarg_only:
            named[argument.name] = value
        elif not argument.has_default_value():
            positional.append(value)
    with contextlib.suppress(Exception):  # many want other arguments or values
        wrap(overload)(*positional, **named)
        torch.tpu.synchronize()


def _ones(*size: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    return torch.ones(*size, dtype=dtype, device="tpu")


def _float8(*size: int) -> torch.Tensor:
    return _ones(*size).to(torch.float8_e4m3fn)


def _int8(*size: int) -> torch.Tensor:
    return _ones(*size, dtype=torch.int8)


def _floats(*size: int) -> torch.Tensor:
    return torch.rand(*size, device="tpu")


def _offsets(*places: int) -> torch.Tensor:
    return torch.tensor(places, dtype=torch.int64, device="tpu")


def _step(kind: type[torch.optim.Optimizer]) -> None:
    """A fused step whose learning rate is a tensor."""
    weight = _floats(4, 4).requires_grad_()
    weight.grad = _floats(4, 4)
    kind([weight], lr=torch.tensor(0.1, device="tpu"), fused=True).step()


@torch.no_grad()
def _in_evaluation(layer: torch.nn.Module, *inputs: torch.Tensor) -> None:
    layer.to("tpu").eval()(*inputs)


aten = torch.ops.aten
nn, optim = torch.nn, torch.optim
_SCALE = functools.partial(_ones, 1, dtype=torch.float32)
# Ops that no database has.
CALLS: dict[str, Callable[[], Any]] = {
    "scaled_mm": lambda: aten._scaled_mm(
        _float8(16, 32), _float8(16, 32).t(), _SCALE(), _SCALE(), out_dtype=torch.bfloat16
    ),
    "int_mm": lambda: aten._int_mm(_int8(32, 16), _int8(16, 32)),
    "int8pack_mm": lambda: aten._weight_int8pack_mm(_ones(4, 32), _int8(16, 32), _ones(16)),
    "grouped_mm": lambda: aten._grouped_mm(
        _ones(8, 16), _ones(2, 16, 32), torch.tensor([3, 8], dtype=torch.int32, device="tpu")
    ),
    "nearest": lambda: [
        nn.functional.interpolate(_ones(1, 2, *size), scale_factor=2, mode=mode)
        for size in ((4, 4), (4, 4, 4))
        for mode in ("nearest", "nearest-exact")
    ],
    "antialias": lambda: [
        nn.functional.interpolate(
            _floats(1, 2, 8, 8).requires_grad_(), (5, 3), mode=mode, antialias=True
        )
        .sum()
        .backward()
        for mode in ("bilinear", "bicubic")
    ],
    "attention in evaluation": lambda: _in_evaluation(
        nn.MultiheadAttention(8, 2, batch_first=True), *[_floats(2, 3, 8)] * 3
    ),
    "encoder in evaluation": lambda: _in_evaluation(
        nn.TransformerEncoderLayer(8, 2, 8, batch_first=True), _floats(2, 3, 8)
    ),
    "jagged": lambda: aten._padded_dense_to_jagged_forward(
        aten._jagged_to_padded_dense_forward(_floats(5, 3), [_offsets(0, 2, 5)], [3]),
        [_offsets(0, 2, 5)],
        5,
    ),
    "unique_dim": lambda: torch.unique(_floats(4, 3), dim=0),
    "unique_consecutive_dim": lambda: torch.unique_consecutive(_floats(4, 3), dim=0),
    "ctc": lambda: nn.functional.ctc_loss(
        _floats(6, 2, 5).log_softmax(-1).requires_grad_(),
        _offsets(1, 2, 3, 1, 4, 2).view(2, 3),
        _offsets(6, 5),
        _offsets(3, 2),
    ).backward(),
    "embedding_bag": lambda: (
        nn.functional.embedding_bag(
            _offsets(0, 1, 2), _floats(4, 3).requires_grad_(), _offsets(0, 2)
        )
        .sum()
        .backward()
    ),
    "fake_quantize": lambda: [
        torch.fake_quantize_per_tensor_affine(_floats(4, 4), 0.1, 0, 0, 255),
        torch.fake_quantize_per_channel_affine(
            _floats(4, 4), _floats(4), torch.zeros(4, dtype=torch.int32, device="tpu"), 0, 0, 255
        ),
        torch.fake_quantize_per_tensor_affine(
            _floats(4, 4), _floats(1), torch.zeros(1, dtype=torch.int32, device="tpu"), 0, 255
        ),
    ],
    "weight_norm": lambda: aten._weight_norm_interface_backward(
        _floats(4, 3),
        *(v := _floats(4, 3), g := _floats(4, 1)),
        aten._weight_norm_interface(v, g)[1],
        0,
    ),
    "rms_norm": lambda: (
        nn.functional.rms_norm(_floats(4, 8).requires_grad_(), (8,), _floats(8)).sum().backward()
    ),
    "masked_softmax": lambda: aten._masked_softmax(_floats(2, 4), _floats(2, 4) > 0.5, 1, 2),
    "fused optimizers": lambda: [
        _step(kind) for kind in (optim.Adam, optim.AdamW, optim.SGD, optim.Adagrad)
    ],
    "batch_norm_stats": lambda: [
        aten.batch_norm_stats(_floats(2, 3, 4), 1e-5),
        aten.batch_norm_elemt(_floats(2, 3, 4), *(_floats(3) for _ in "wbmi"), 1e-5),
        aten.batch_norm_update_stats(_floats(2, 3, 4), _floats(3), _floats(3), 0.1),
        aten.batch_norm_gather_stats_with_counts(
            _floats(2, 3, 4),
            *(_floats(2, 3) for _ in "mi"),
            *(_floats(3) for _ in "rr"),
            0.1,
            1e-5,
            _floats(2),
        ),
    ],
    "unscale": lambda: aten._amp_foreach_non_finite_check_and_unscale_(
        [_SCALE()], _SCALE(), _SCALE()
    ),
}


def programs_of(run: Callable[[], None]) -> list[Recorded]:
    """The programs that a function's run asks for the first time in this process, and gets."""
    recorded: list[Recorded] = []

    def program(trace: Trace) -> Any:
        made = of_trace(trace)
        recorded.append(Recorded((rule_of(trace),), functools.partial(compile_trace, trace)))
        return made

    def make(source: graphs.GraphSource) -> Any:
        made = of_graph(source)
        compile_source = functools.partial(compile_graph, source)
        recorded.append(Recorded(tuple(sorted(rules_of(source.graph))), compile_source))
        return made

    of_trace, of_graph = compiler.program, graphs.make
    with (
        mock.patch.object(compiler, "program", program),
        mock.patch.object(graphs, "make", make),
        torch.tpu.set_eager_mode("strict"),
    ):
        torch.manual_seed(0)
        run()
        torch.tpu.synchronize()
    return recorded


def rule_of(trace: Trace) -> str:
    """The op whose rule a program is: the functional form of the op that was called."""
    overload = overload_of(trace.steps[0].plan.node.op)
    if overload not in registry.rules():
        overload = registry.functional_form(overload) or overload
    return f"length of {overload}" if trace.asks_size else str(overload)


def rules_of(graph: Graph) -> set[str]:
    """The rules that a graph's program is made of."""
    targets = {target_of(node.target) for node in graph.nodes}
    inner = (rules_of(each) for node in graph.nodes for each in node.graphs())
    return {str(each) for each in targets & set(registry.rules())}.union(*inner)
