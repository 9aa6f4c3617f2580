"""PyTorch's op database on the device beside the CPU: forward and gradients of a few samples each.

    python tests/conformance/op_samples.py [--ops REGEX] [--dtype float32] [--samples N] [--json FILE]

prints one line per op that fails, and a summary. ``check_op`` is what the tests call.
"""

from __future__ import annotations

import argparse
import json
import re
import time
import traceback
from typing import Any

import torch
import torch_tpu
from torch.testing import assert_close
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_flatten, tree_map

Random = torch.Tag.nondeterministic_seeded


def to_device(value: Any, device: str) -> Any:
    """Sample arguments on another device: tensors are copied, leaves stay leaves."""

    def move(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            moved = leaf.detach().to(device)
            if leaf.detach().is_conj() and not moved.is_conj():
                moved = moved.conj().resolve_conj().conj()
            return moved.requires_grad_(leaf.requires_grad)
        if isinstance(leaf, torch.device) or leaf == "cpu":
            return torch.device(device)
        return leaf

    return tree_map(move, value)


def tensors(value: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_flatten(value)[0] if isinstance(leaf, torch.Tensor)]


def tolerance(op: Any, dtype: torch.dtype) -> dict[str, float]:
    """PyTorch's own for the op where it has one for CUDA, else assert_close's by dtype."""
    for decorator in op.decorators:
        overrides = getattr(decorator, "decorator", None)
        table = getattr(overrides, "tol", None)
        if isinstance(table, dict) and dtype in table:
            return {"rtol": table[dtype].rtol, "atol": table[dtype].atol}
    return {}


def check_sample(op: Any, sample: Any, dtype: torch.dtype, grad: bool) -> None:
    """Raise AssertionError where the device's results or gradients differ from the CPU's."""
    limits = tolerance(op, dtype)
    arguments = (sample.input, sample.args, sample.kwargs)
    here = to_device(arguments, "cpu")
    there = to_device(arguments, "tpu")
    expected = op(here[0], *here[1], **here[2])
    got = op(there[0], *there[1], **there[2])
    compare = sample.output_process_fn_grad or (lambda x: x)
    for want, have in zip(tensors(expected), tensors(got), strict=True):
        assert have.device.type == "tpu", f"result on {have.device}"
        assert want.stride() == have.stride() or want.numel() < 2, (
            f"strides {have.stride()}, CPU has {want.stride()}"
        )
        assert_close(have.cpu(), want, equal_nan=True, **limits)
    if not grad:
        return
    outputs = [t for t in tensors(compare(expected)) if t.requires_grad]
    inputs = [t for t in tensors(here) if t.requires_grad]
    if not outputs or not inputs:
        return
    outputs_there = [t for t in tensors(compare(got)) if t.requires_grad]
    inputs_there = [t for t in tensors(there) if t.requires_grad]
    seeds = [torch.randn_like(o) for o in outputs]
    want_grads = torch.autograd.grad(outputs, inputs, seeds, allow_unused=True)
    have_grads = torch.autograd.grad(
        outputs_there, inputs_there, [s.to("tpu") for s in seeds], allow_unused=True
    )
    for want, have in zip(want_grads, have_grads, strict=True):
        if want is None:
            assert have is None or not have.any(), "gradient where the CPU has none"
            continue
        assert have is not None, "no gradient where the CPU has one"
        assert_close(have.cpu(), want, equal_nan=True, **limits)


def check_op(op: Any, dtype: torch.dtype, samples: int, grad: bool) -> int:
    """Check the first samples of an op; how many there were."""
    count = 0
    for sample in op.sample_inputs("cpu", dtype, requires_grad=grad):
        if count >= samples:
            break
        count += 1
        check_sample(op, sample, dtype, grad)
    return count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ops", default=".*")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--samples", type=int, default=4)
    parser.add_argument("--shard", default="0/1")
    parser.add_argument("--json")
    parser.add_argument("--no-grad", action="store_true")
    parser.add_argument("--trace", action="store_true")
    options = parser.parse_args()
    dtype = getattr(torch, options.dtype)
    shard, shards = map(int, options.shard.split("/"))
    failed, passed = {}, 0
    for number, op in enumerate(op_db):
        name = op.name + (f".{op.variant_test_name}" if op.variant_test_name else "")
        if number % shards != shard or not re.fullmatch(options.ops, name):
            continue
        if dtype not in op.dtypes:
            continue
        grad = (
            not options.no_grad
            and op.supports_autograd
            and dtype in op.supported_backward_dtypes("cpu")
        )
        start = time.time()
        try:
            check_op(op, dtype, options.samples, grad)
            passed += 1
        except Exception as error:  # noqa: BLE001
            failed[name] = f"{type(error).__name__}: {error}"
            print(f"FAIL {name} ({time.time() - start:.1f}s): {failed[name][:400]}", flush=True)
            if options.trace:
                traceback.print_exc()
    print(f"{passed} passed, {len(failed)} failed; fallbacks {torch_tpu.diagnostics.fallbacks()}")
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"failed": failed, "fallbacks": torch_tpu.diagnostics.fallbacks()}, file)


if __name__ == "__main__":
    main()
