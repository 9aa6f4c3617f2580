"""PyTorch's op database on the device beside the CPU: results, errors and gradients of its samples.

    python tests/conformance/op_samples.py [--ops REGEX] [--dtype float32] [--variant out] ...

prints one line per op that fails, and a summary; the exit status is that of the failures that
known_failures.py has no reason for. ``check_op`` is what the tests call.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import json
import re
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from typing import Any

import known_failures
import torch
from forms import VARIANTS, tensors
from torch._prims_common import is_non_overlapping_and_dense_or_false as is_dense
from torch.testing import assert_close
from torch.testing._comparison import default_tolerances
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

import torch_tpu

# Nothing defines the values of these.
UNINITIALISED = {
    "empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided",
}  # fmt: skip

# Their tensor arguments decide shapes and must be on the host, on every device.
HOST_ARGUMENTS = {"tensor_split"}

# The database has them for CUDA alone: they compile CUDA source.
CUDA_ONLY = "jiterator"

# What messages call the device, and what Tensor.type() calls a type of it.
_DEVICE = re.compile(r"\btpu(:0)?\b")
_TYPE = re.compile(r"\btpu(\w+)Type\b")

PRECISE = {
    torch.float16: torch.float64,
    torch.bfloat16: torch.float64,
    torch.float32: torch.float64,
    torch.complex64: torch.complex128,
}

# How many times the CPU's own rounding error, as float64 shows it, a result may be off.
ROUNDING_FACTOR = 4


def name_of(op: Any) -> str:
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name


# ---- moving a sample's arguments


def moved(value: Any, device: str, dtypes: dict[torch.dtype, torch.dtype] | None = None) -> Any:
    """A copy of arguments on a device, leaves still leaves; ``dtypes`` replaces some dtypes."""
    dtypes = dtypes or {}

    def move(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            copy = _moved_tensor(leaf.detach(), device, dtypes.get(leaf.dtype, leaf.dtype))
            return copy.requires_grad_(leaf.requires_grad)
        if isinstance(leaf, torch.device) or (isinstance(leaf, str) and leaf == "cpu"):
            return torch.device(device)
        return dtypes.get(leaf, leaf) if isinstance(leaf, torch.dtype) else leaf

    return tree_map(move, value)


def _moved_tensor(tensor: torch.Tensor, device: str, dtype: torch.dtype) -> torch.Tensor:
    if tensor.is_meta:
        return tensor
    if tensor.layout != torch.strided:
        return tensor.to(device=device, dtype=dtype, copy=True)
    if tensor.is_conj():
        return _moved_tensor(tensor.conj(), device, dtype).conj()
    if tensor.is_neg():
        return torch._neg_view(_moved_tensor(torch._neg_view(tensor), device, dtype))
    whole = tensor.numel() * tensor.itemsize == tensor.untyped_storage().nbytes()
    if whole and is_dense(tensor):
        copy = tensor.to(device=device, dtype=dtype, copy=True)
        assert copy.stride() == tensor.stride() or tensor.numel() < 2, "a copy has other strides"
        return copy
    storage = torch.empty(0, dtype=tensor.dtype).set_(tensor.untyped_storage())
    window = tensor.size(), tensor.stride(), tensor.storage_offset()
    return storage.to(device=device, dtype=dtype, copy=True).as_strided(*window)


# ---- running a sample


@dataclasses.dataclass(frozen=True)
class Case:
    """One sample of an op, called in one of its ways."""

    op: Any
    call: Callable[..., Any]
    sample: Any
    grad: bool

    @property
    def is_defined(self) -> bool:
        """Whether results have values that can be compared."""
        return self.op.name not in UNINITIALISED

    @property
    def arguments(self) -> tuple[Any, Any, Any]:
        return self.sample.input, self.sample.args, self.sample.kwargs

    def on(self, device: str, dtypes: dict[torch.dtype, torch.dtype] | None = None) -> Result:
        """Run the sample on a device."""
        inputs = moved(self.arguments, device, dtypes)
        if self.op.name in HOST_ARGUMENTS:
            inputs = (inputs[0], *moved(self.arguments[1:], "cpu", dtypes))
        try:
            returned = self.call(inputs[0], *inputs[1], **inputs[2])
            process = self.sample.output_process_fn_grad or (lambda output: output)
            comparable = tensors(process(returned))
            gradients = gradients_of(comparable, tensors(inputs)) if self.grad else []
            torch.tpu.synchronize()  # what only values show is raised here at the latest
        except Exception as error:  # an op's errors are part of what is compared
            return Result(error=error)
        return Result(tensors(returned), comparable, self.written(inputs), gradients)

    def written(self, inputs: Any) -> list[torch.Tensor]:
        """The arguments that are compared after the call."""
        return [t for t in tensors(inputs) if t._version > 0]

    def draws_random_numbers(self) -> bool:
        """Whether an op of the CPU's run advances its generator."""
        with Draws() as draws:
            self.on("cpu")
        return draws.seen


@dataclasses.dataclass
class Result:
    """What a call did: ``comparable`` is what its sample says of ``outputs`` is well defined."""

    outputs: list[torch.Tensor] = dataclasses.field(default_factory=list)
    comparable: list[torch.Tensor] = dataclasses.field(default_factory=list)
    written: list[torch.Tensor] = dataclasses.field(default_factory=list)
    gradients: list[torch.Tensor | None] = dataclasses.field(default_factory=list)
    error: Exception | None = None

    def values(self) -> list[torch.Tensor | None]:
        return [*self.comparable, *self.written, *self.gradients]


def gradients_of(outputs: list[torch.Tensor], inputs: list[torch.Tensor]) -> list[Any]:
    outputs = [t for t in outputs if t.requires_grad]
    inputs = [t for t in inputs if t.requires_grad]
    if not outputs or not inputs:
        return []
    generator = torch.Generator().manual_seed(0)
    seeds = [torch.randn(t.shape, generator=generator).to(t.device, t.dtype) for t in outputs]
    return list(torch.autograd.grad(outputs, inputs, seeds, allow_unused=True))


def _same(first: torch.Tensor | None, second: torch.Tensor | None) -> bool:
    if first is None or second is None:
        return first is second
    return first.shape == second.shape and torch.allclose(first, second, equal_nan=True)


class Draws(TorchDispatchMode):
    """Notices random numbers being drawn. Tags alone don't tell: dropout of 0 draws none."""

    seen = False

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        before = torch.random.get_rng_state()
        result = func(*args, **(kwargs or {}))
        random = torch.Tag.nondeterministic_seeded in func.tags
        self.seen |= random and not torch.equal(before, torch.random.get_rng_state())
        return result


# ---- comparing


def check(case: Any) -> None:
    """Raise AssertionError where the device's results or gradients differ from the CPU's."""
    want, have = case.on("cpu"), case.on("tpu")
    if want.error or have.error:
        return _check_errors(want.error, have.error)
    for expected, got in zip(want.outputs, have.outputs, strict=True):
        check_metadata(expected, got)
    if not case.is_defined:
        return None
    try:
        check_values(want, have, None)
    except AssertionError:
        if case.draws_random_numbers():
            return None
        precise = case.on("cpu", PRECISE)
        if precise.error or len(precise.values()) != len(want.values()):
            raise
        check_values(want, have, precise)
    return None


def _check_errors(want: Exception | None, have: Exception | None) -> None:
    if want is None:
        raise have  # type: ignore[misc]
    assert have is not None, f"the CPU raises {type(want).__name__}: {want}"
    assert type(have) is type(want), f"{have!r}, the CPU raises {want!r}"
    assert _words(have) == _words(want), f"{have!r}, the CPU raises {want!r}"


def _words(error: Exception) -> str:
    """A message with the device's names taken out."""
    message = str(error).split("\nException raised from")[0]
    return _DEVICE.sub("cpu", _TYPE.sub(r"torch.\1Tensor", message))


def check_metadata(want: torch.Tensor, have: torch.Tensor) -> None:
    assert have.device.type == "tpu", f"result on {have.device}"
    assert have.dtype == want.dtype, f"{have.dtype}, CPU has {want.dtype}"
    assert have.shape == want.shape, f"shape {tuple(have.shape)}, CPU has {tuple(want.shape)}"
    if want.layout == torch.strided and want.numel() > 1:
        ours, theirs = (_meaningful_strides(t) for t in (have, want))
        assert ours == theirs, f"strides {have.stride()}, CPU has {want.stride()}"


def _meaningful_strides(tensor: torch.Tensor) -> list[int]:
    return [s for n, s in zip(tensor.shape, tensor.stride(), strict=True) if n > 1]


def check_values(want: Result, have: Result, precise: Result | None) -> None:
    references = precise.values() if precise else itertools.repeat(None)
    pairs = zip(want.values(), have.values(), strict=True)
    for (expected, got), reference in zip(pairs, references, strict=False):
        if expected is None or got is None:
            present = got if expected is None else expected
            assert present is None or not present.any(), "only one side has a gradient"
            continue
        _check_close(expected.detach().cpu(), got.detach().cpu(), reference)


def _check_close(want: torch.Tensor, have: torch.Tensor, precise: torch.Tensor | None) -> None:
    try:
        assert_close(have, want, equal_nan=True)
    except AssertionError:
        if precise is None or not _as_accurate(want, have, precise.detach()):
            raise


def _as_accurate(want: torch.Tensor, have: torch.Tensor, precise: torch.Tensor) -> bool:
    """Whether ``have`` is about as near to the float64 result as the CPU's own is."""
    if want.layout != torch.strided or want.dtype not in PRECISE:
        return False
    finite = want.isfinite()
    if not torch.equal(finite, have.isfinite()) or not _same(want[~finite], have[~finite]):
        return False
    rtol, atol = default_tolerances(want.dtype)
    exact = precise[finite]
    ours, theirs = ((each[finite] - exact).abs() for each in (have, want))
    slack = ROUNDING_FACTOR * theirs.max() if theirs.numel() else 0.0
    return bool((ours <= slack + atol + rtol * exact.abs()).all())


# ---- an op in one of its forms


def check_op(
    op: Any, dtype: torch.dtype, samples: int, grad: bool, variant: str = "functional"
) -> int:
    """Check the first samples of an op; how many calls there were."""
    torch.manual_seed(0)
    form = VARIANTS[variant]
    grad = grad and op.supports_autograd and dtype in op.supported_backward_dtypes("cpu")
    calls = 0
    for sample in form.samples(op, dtype, samples, grad and form.differentiable):
        for call, arguments in form(op, sample):
            check(Case(op, call, arguments, grad and form.gradients))
            calls += 1
    return calls


def supported(op: Any, dtype: torch.dtype) -> bool:
    """Whether the database has the op for CPUs with this dtype."""
    return dtype in op.dtypes and not op.name.startswith(CUDA_ONLY)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ops", default=".*")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--variant", default="functional", choices=VARIANTS)
    parser.add_argument("--samples", type=int, default=4)
    parser.add_argument("--shard", default="0/1")
    parser.add_argument("--json")
    parser.add_argument("--no-grad", action="store_true")
    parser.add_argument("--trace", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    dtype = getattr(torch, options.dtype)
    shard, shards = map(int, options.shard.split("/"))
    known = known_failures.reasons(options.dtype, options.variant)
    failed, passed = {}, 0
    for number, op in enumerate(op_db):
        name = name_of(op)
        if number % shards != shard or not re.fullmatch(options.ops, name):
            continue
        if not supported(op, dtype):
            continue
        start = time.time()
        try:
            calls = check_op(op, dtype, options.samples, not options.no_grad, options.variant)
            passed += calls > 0
        except Exception as error:
            failed[name] = f"{type(error).__name__}: {error}"
            reason = f"known, {known[name]}" if name in known else failed[name][:400]
            print(f"FAIL {name} ({time.time() - start:.1f}s): {reason}", flush=True)
            if options.trace:
                traceback.print_exc()
    unknown = failed.keys() - known.keys()
    print(f"{passed} passed, {len(failed) - len(unknown)} known to fail, {len(unknown)} failed")
    print(f"fallbacks {torch_tpu.diagnostics.fallbacks()}")
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"failed": failed, "fallbacks": torch_tpu.diagnostics.fallbacks()}, file)
    return 1 if unknown else 0


if __name__ == "__main__":
    sys.exit(main())
