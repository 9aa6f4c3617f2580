"""Random ops that a backward pass repeats: their generator's state stays on the device.

For dropout in a checkpoint the partitioner writes that the forward pass reads the state on the
host, and that the backward pass sets it there. Both would end a program in the middle. Instead a
program gives the (seed, offset) of such an op as a small tensor, and the other one takes it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import fx
from torch._prims import rng_prims
from torch._subclasses import FakeTensor
from torch.fx.node import map_arg


def draw_and_save(op: str, *args: Any, **kwargs: Any) -> Any:
    """Stands in a graph for an op that draws: its state, and its result."""
    raise NotImplementedError(f"{op} is part of a program")


draw_and_save.tags = (torch.Tag.nondeterministic_seeded,)  # type: ignore[attr-defined]


def draw_again(state: Any, op: str, *args: Any, **kwargs: Any) -> Any:
    """Stands in a graph for an op that draws what another one drew."""
    raise NotImplementedError(f"{op} is part of a program")


def keep_on_device(module: fx.GraphModule, lowers: Callable[[str], bool]) -> None:
    """Rewrite the nodes of ops that can be part of a program."""
    for target in (rng_prims.run_and_save_rng_state, rng_prims.run_with_rng_state):
        for node in module.graph.find_nodes(op="call_function", target=target):
            op = next(arg for arg in node.args if isinstance(arg, torch._ops.OpOverload))
            if lowers(op.name()):
                _keep(node, op, node.args.index(op))


def _keep(node: fx.Node, op: Any, place: int) -> None:
    args, kwargs = map_arg((node.args[place + 1 :], node.kwargs), lambda each: each.meta["val"])
    tensors = [value for value in args if isinstance(value, FakeTensor)]
    mode = tensors[0].fake_mode if tensors else torch._guards.detect_fake_mode()
    with mode:
        result = op(*args, **kwargs)
        first = result[0] if isinstance(result, (list, tuple)) else result
        if first.device.type != "tpu":
            return
        state = torch.empty(2, dtype=torch.int64, device=first.device)
    node.args = (*node.args[:place], op.name(), *node.args[place + 1 :])
    if place:
        node.target = draw_again
        node.meta["val"] = result
        node.args[0].meta["val"] = state
    else:
        node.target = draw_and_save
        node.meta["val"] = (state, result)
        for user in node.users:
            user.meta["val"] = node.meta["val"][user.args[1]]
