"""Functions compiled for tpu that must be whole programs: no graph break, nothing on the host."""

import contextlib
import functools

import pytest
import torch

from torch_tpu.dynamo.compiled import CompiledGraph
from torch_tpu.dynamo.stages import HostStage


def compiled(function, **options):
    """The function through torch.compile; a call fails where the host would run a node."""
    torch._dynamo.reset()
    target = torch.compile(function, backend="tpu", fullgraph=True, **options)

    @functools.wraps(function)
    def call(*args, **kwargs):
        with nothing_on_host():
            return target(*args, **kwargs)

    return call


def host_nodes(graph):
    """The nodes that the host runs."""
    stages = (stage for stage in graph.stages if isinstance(stage, HostStage))
    return [node for stage in stages for _, node in stage.nodes]


@contextlib.contextmanager
def nothing_on_host():
    """Inside, a graph fails to compile, or to load, if the host would run a node of it."""
    prepare = CompiledGraph._prepare

    def checked(graph):
        on_host = sorted({node.target for node in host_nodes(graph)})
        assert not on_host, f"run on the host: {on_host}"
        prepare(graph)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CompiledGraph, "_prepare", checked)
        yield
