"""The "tpu" backend of torch.compile."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from unittest import mock

import torch
from torch import fx
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.variables import optimizer
from torch._functorch import config as functorch
from torch._functorch.aot_autograd import SerializableAOTDispatchCompiler
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch._guards import TracingContext
from torch._inductor import codecache

from torch_tpu import workers
from torch_tpu.compiler import store
from torch_tpu.dynamo import device_interface
from torch_tpu.dynamo.compiled import CompiledGraph
from torch_tpu.dynamo.graph import Reader
from torch_tpu.dynamo.options import Options, compiling
from torch_tpu.dynamo.saved_states import describe_states
from torch_tpu.precision import matmul_precision

device_interface.register()

# Dynamo asks it of every gradient that an optimizer steps, and it imports all of Inductor first.
_is_static_on_cuda = optimizer._is_static_for_cudagraphs
optimizer._is_static_for_cudagraphs = lambda tensor: (
    not tensor.is_cuda or _is_static_on_cuda(tensor)
)
# PyTorch's cache hashes its sources first: on another thread, while Dynamo traces.
workers.submit("hash", codecache.torch_key)


def tpu(
    module: fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
) -> Callable[..., Any]:
    """Compile a graph that Dynamo captured; its tensors are on tpu."""
    chosen = Options.parse(options, mode)
    forward, backward, inference = (
        _compiler(phase, chosen) for phase in ("forward", "backward", "inference")
    )
    with compiling(chosen), cached_graphs(chosen):
        return aot_autograd(
            fw_compiler=forward,
            bw_compiler=backward,
            inference_compiler=inference,
            partition_fn=min_cut_rematerialization_partition,
            keep_inference_input_mutations=True,
        )(module, example_inputs)


def _compiler(phase: str, options: Options) -> Callable[..., CompiledGraph]:
    compiler = functools.partial(compile_graph, options=options, phase=phase)
    if not options.serializable:
        return compiler
    return SerializableAOTDispatchCompiler(CompiledGraph, compiler)


@contextlib.contextmanager
def cached_graphs(options: Options) -> Iterator[None]:
    """AOTAutograd's cache keeps whole CompiledGraphs, for this target and these options alone.

    Where PyTorch's cache is on and ours is; graphs that it refuses are traced anew.
    """
    tag = torch.compiler.config.cache_key_tag
    precision = matmul_precision()
    ordinal = torch.tpu.current_device()  # where a graph without inputs makes its tensors
    facts = (tag, store.namespace(), options.key(), precision, ordinal, _known_ranges())
    with (
        functorch.patch(
            bundled_autograd_cache=True,
            force_non_lazy_backward_lowering=True,  # an entry is a forward with its backward
            enable_autograd_cache=functorch.enable_autograd_cache and store.is_on(),
        ),
        torch.compiler.config.patch(cache_key_tag=repr(facts)),
        # Inductor's code generators, a second of imports, don't touch our graphs.
        mock.patch.object(codecache, "init_backend_registration", lambda: None),
    ):
        yield


def _known_ranges() -> list[str]:
    """What is known of open sizes, which PyTorch's key lacks: bounds are taken from it."""
    context = TracingContext.try_get()
    if context is None or context.fake_mode is None or context.fake_mode.shape_env is None:
        return []
    return sorted(map(str, context.fake_mode.shape_env.var_to_range.items()))


def compile_graph(
    module: fx.GraphModule, example_inputs: Sequence[Any], *, options: Options, phase: str = ""
) -> CompiledGraph:
    """A graph of functional ATen ops as a callable; ``phase`` is forward, backward or inference."""
    ordinal = ordinal_of(module)
    describe_states(module, torch.device("tpu", ordinal))
    reader = Reader()
    graph = reader.read(module)
    context = TracingContext.try_get()
    if phase == "forward" and context is not None and context.fw_metadata is not None:
        graph = dataclasses.replace(graph, visible=context.fw_metadata.num_forward)
    return CompiledGraph(graph, reader.constants, options, ordinal, phase)


def ordinal_of(module: fx.GraphModule) -> int:
    """The device that a graph's tensors are on."""
    for node in module.graph.nodes:
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor) and value.device.type == "tpu":
            return value.device.index or 0
    return torch.tpu.current_device()
