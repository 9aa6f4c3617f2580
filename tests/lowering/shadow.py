"""Run lowering rules beside CPU PyTorch, without the extension.

``Shadow`` is a dispatch mode: every ATen op that runs on CPU tensors inside and has a rule is
computed a second time through its rule, and the two results are compared. Run any PyTorch code
(an OpInfo's samples, a model's backward) inside. The rules run at the end, as one program: that
takes a fifth of the time of compiling each.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves, tree_map

from torch_tpu.lowering import dtypes, registry
from torch_tpu.lowering.checks import VALUE_BITS, collect_checks

aten = torch.ops.aten

# Their values are whatever the memory held.
UNDEFINED = {
    aten.empty.memory_format,
    aten.empty_like.default,
    aten.empty_permuted.default,
    aten.empty_strided.default,
    aten.new_empty.default,
    aten.new_empty_strided.default,
}

# What a test runs once takes XLA's old emitters and LLVM less time to compile, by half of all.
ONCE = {
    "xla_cpu_use_fusion_emitters": False,
    "xla_backend_optimization_level": 0,
    "xla_llvm_disable_expensive_passes": True,
}


def to_array(tensor: torch.Tensor) -> np.ndarray:
    tensor = tensor.detach().resolve_conj().resolve_neg().contiguous()
    bits = tensor.reshape(-1).view(torch.uint8).numpy() if tensor.numel() else np.empty(0, "uint8")
    return bits.view(dtypes.to_jax(tensor.dtype)).reshape(tensor.shape)


def to_tensor(array: Any, dtype: torch.dtype) -> torch.Tensor:
    array = np.asarray(array).astype(dtypes.to_jax(dtype))
    if array.size == 0:
        return torch.empty(array.shape, dtype=dtype)
    flat = torch.from_numpy(array.reshape(-1).view(np.uint8).copy())
    return flat.view(dtype).reshape(array.shape)


class RuleCall:
    """A call of an overload's rule: the arrays that it reads, and how its arguments hold them."""

    def __init__(self, overload: Any, args: tuple, kwargs: dict, seed: int = 0):
        self.rule = registry.find(overload)
        assert self.rule is not None, f"{overload} has no lowering"
        self.arrays: list[Any] = []
        self.positional: list[Callable[[list], Any]] = []
        self.named: dict[str, Callable[[list], Any]] = {}
        with jax.enable_x64(True):
            for place, argument in enumerate(a for a in overload._schema.arguments if not a.is_out):
                if argument.name == "generator" and "Generator" in str(argument.type):
                    continue
                in_order = place < len(args) and not argument.kwarg_only
                value = (
                    args[place] if in_order else kwargs.get(argument.name, argument.default_value)
                )
                bound = self._bound(argument, value)
                if argument.kwarg_only:
                    self.named[argument.name] = bound
                else:
                    self.positional.append(bound)
        if torch.Tag.nondeterministic_seeded in overload.tags:
            self.named["generator"] = lambda arrays: jax.random.key(seed)

    def _bound(self, argument: torch.Argument, value: Any) -> Callable[[list], Any]:
        if isinstance(value, (list, tuple)):
            parts = [self._bound_leaf(argument, item) for item in value]
            return lambda arrays: [part(arrays) for part in parts]
        return self._bound_leaf(argument, value)

    def _bound_leaf(self, argument: torch.Argument, item: Any) -> Callable[[list], Any]:
        place = len(self.arrays)
        if isinstance(item, torch.Tensor):
            self.arrays.append(jnp.asarray(to_array(item)))
            weak = item.dim() == 0 and getattr(item, "is_wrapped_number", bool)()
        elif self.rule.takes_at_runtime(argument) and isinstance(item, (bool, int, float, complex)):
            self.arrays.append(jnp.asarray(item))
            weak = True
        else:
            return lambda arrays: item
        return lambda arrays: registry.weaken(arrays[place]) if weak else arrays[place]

    def decide_size(self) -> None:
        """A length that values decide, as the program's bound for it."""
        if self.rule.size is not None:
            size = self._call(self.rule.size, self.arrays)
            bound = None if size is None else 1 << max(0, int(size) - 1).bit_length()
            self.named["size"] = lambda arrays: bound

    def traced(self, arrays: list) -> tuple[Any, Any]:
        """The rule's results, and the code of its first check that failed."""
        with collect_checks() as checks:
            results = self._call(self.rule.function, arrays)
            self.errors = checks.errors
            return results, checks.code()

    def _call(self, function: Any, arrays: list) -> Any:
        named = {name: bound(arrays) for name, bound in self.named.items()}
        return function(*(bound(arrays) for bound in self.positional), **named)


def run_together(calls: list[RuleCall]) -> list[Any]:
    """What the rules give, all of them in one program: JAX arrays in each rule's own nesting.

    ValueError with the message where a check of a rule failed.
    """
    with jax.enable_x64(True), jax.default_matmul_precision("highest"):
        for call in calls:
            call.decide_size()

        @functools.partial(jax.jit, compiler_options=ONCE)
        def traced(arrays: list[list]) -> list[Any]:
            return [call.traced(each) for call, each in zip(calls, arrays, strict=True)]

        done = traced([call.arrays for call in calls])
    for call, (_, code) in zip(calls, done, strict=True):
        if int(code):
            value, place = divmod(int(code), 1 << VALUE_BITS)
            raise ValueError(call.errors[place - 1][1].replace("{value}", str(value)))
    return [results for results, _ in done]


def run_rule(overload: Any, args: tuple, kwargs: dict, seed: int = 0) -> Any:
    """What the rule of an overload gives for CPU arguments."""
    return run_together([RuleCall(overload, args, kwargs, seed)])[0]


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _cloned(values: Any) -> Any:
    return tree_map(lambda x: x.clone() if isinstance(x, torch.Tensor) else x, values)


def _written(func: Any, rule: Any, args: tuple, kwargs: dict) -> list[Any]:
    """The arguments that an op writes to and doesn't return, which its rule returns."""
    schema = func._schema
    returned = {str(r.alias_info.before_set) for r in schema.returns if r.alias_info is not None}
    given = dict(zip((a.name for a in schema.arguments), args, strict=False)) | kwargs

    def is_written(argument: torch.Argument) -> bool:
        alias = argument.alias_info
        unreturned = alias is not None and alias.is_write and str(alias.before_set) not in returned
        return unreturned or argument.name in rule.writes

    return [
        given[argument.name]
        for argument in schema.arguments
        if given.get(argument.name) is not None and is_written(argument)
    ]


class Shadow(TorchDispatchMode):
    """Compare every op that has a rule with what CPU PyTorch gives for it.

    ``seen`` counts compared calls per op name, ``unserved`` those of ops without a rule.
    """

    def __init__(self, rtol: float | None = None, atol: float | None = None, skip: Any = ()):
        super().__init__()
        self.tolerance = {} if rtol is None else {"rtol": rtol, "atol": atol}
        self.skip = skip
        self.seen: dict[str, int] = {}
        self.unserved: dict[str, int] = {}
        self.pending: list[tuple[str, RuleCall, list[Any]]] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if not self._is_compared(func, (args, kwargs)):
            if registry.find(func) is None:
                self.unserved[str(func)] = self.unserved.get(str(func), 0) + 1
            return func(*args, **kwargs)
        call = RuleCall(func, *_cloned((args, kwargs)))
        result = func(*args, **kwargs)
        expected = [] if result is None else list(result) if isinstance(result, tuple) else [result]
        expected += _written(func, call.rule, args, kwargs)
        self.pending.append((str(func), call, _cloned(expected)))
        return result

    def _is_compared(self, func: Any, given: Any) -> bool:
        tensors = [each for each in tree_leaves(given) if isinstance(each, torch.Tensor)]
        return not (
            func in UNDEFINED
            or func in self.skip
            or func.is_view
            or torch.Tag.nondeterministic_seeded in func.tags
            or registry.find(func) is None
            or any(each.layout != torch.strided for each in tensors)
        )

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        super().__exit__(kind, error, traceback)
        if kind is None:
            with _disable_current_modes():
                self._compare()

    def _compare(self) -> None:
        pending, self.pending = self.pending, []
        results = run_together([call for _, call, _ in pending])
        for (name, call, expected), got in zip(pending, results, strict=True):
            got = got if isinstance(got, tuple) else (got,)
            assert len(got) >= len(expected), f"{name}: {len(got)} of {len(expected)} results"
            for want, have in zip(expected, got, strict=False):
                wants, haves = _listed(want), _listed(have)
                assert len(wants) == len(haves), f"{name}: {len(haves)} of {len(wants)} results"
                for pair in zip(wants, haves, strict=True):
                    self._compare_tensors(name, call.rule.size is not None, *pair)
            self.seen[name] = self.seen.get(name, 0) + 1

    def _compare_tensors(self, name: str, is_padded: bool, want: Any, have: Any) -> None:
        if not isinstance(want, torch.Tensor):
            return
        assert have is not None, f"{name}: undefined result"
        shape = tuple(want.shape)
        if is_padded and have.shape != shape:
            have = have[tuple(slice(0, n) for n in shape)]
        assert have.shape == shape, f"{name}: shape {have.shape}, expected {shape}"
        assert_close(
            to_tensor(have, want.dtype),
            want.detach().resolve_conj().resolve_neg(),
            equal_nan=True,
            **self.tolerance,
            msg=lambda m: f"{name}: {m}",
        )


def _differentiable(values: Any) -> list[torch.Tensor]:
    return [x for x in tree_leaves(values) if isinstance(x, torch.Tensor) and x.requires_grad]


def run_samples(
    op: Any, dtype: torch.dtype, grad: bool = False, limit: int = 50, **options: Any
) -> Shadow:
    """Run an OpInfo's CPU samples (and their backward) inside Shadow; the mode, for its counts."""
    made = op.sample_inputs("cpu", dtype, requires_grad=grad)
    samples = list(itertools.islice(made, limit))
    with Shadow(**options) as shadow:
        for sample in samples:
            result = op(sample.input, *sample.args, **sample.kwargs)
            outputs = _differentiable(result)
            inputs = _differentiable((sample.input, sample.args, sample.kwargs))
            if grad and outputs and inputs:
                ones = [torch.ones_like(each) for each in outputs]
                torch.autograd.grad(outputs, inputs, ones, allow_unused=True)
    return shadow
