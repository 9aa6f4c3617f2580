"""States of generators that a forward graph saves for its backward, as tensors of the device.

PyTorch's partitioner puts them in after tracing, described as its own CPU generator's state where
it describes them at all. A state is here an int64 tensor of two numbers, seed and offset.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import fx
from torch._guards import detect_fake_mode
from torch._prims.rng_prims import run_and_save_rng_state, run_with_rng_state


def describe_states(module: fx.GraphModule, device: torch.device) -> None:
    """Give the states and the ops that draw with them the values that stand for their results."""
    nodes = [
        node
        for node in module.graph.nodes
        if node.target in (run_and_save_rng_state, run_with_rng_state)
    ]
    if not nodes:
        return
    mode = detect_fake_mode([node.meta.get("val") for node in module.graph.nodes])
    with mode:
        state = torch.empty(2, dtype=torch.int64, device=device)
        for node in nodes:
            if node.target is run_with_rng_state:
                node.args[0].meta["val"] = state
                node.meta["val"] = _result(node, *node.args[1:])
            else:
                node.meta["val"] = state, _result(node, *node.args)
    for node in nodes:
        _describe_items(node)


def _result(node: fx.Node, op: Any, *args: Any) -> Any:
    values = fx.map_arg((args, node.kwargs), lambda each: each.meta["val"])
    return op(*values[0], **values[1])


def _describe_items(node: fx.Node) -> None:
    for user in node.users:
        if user.target is operator.getitem:
            user.meta["val"] = node.meta["val"][user.args[1]]
            _describe_items(user)
