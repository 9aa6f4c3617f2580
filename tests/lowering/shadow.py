"""Run lowering rules beside CPU PyTorch, without the extension.

``Shadow`` is a dispatch mode: inside it every ATen op that runs on CPU tensors and has a rule is
computed a second time through its rule, and the two results are compared. Run any PyTorch code
(an OpInfo's samples, a model's backward) inside.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

from torch_tpu.lowering import dtypes, registry

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


def run_rule(overload: Any, args: tuple, kwargs: dict, seed: int = 0) -> Any:
    """What the rule of an overload gives for CPU arguments: JAX arrays in the rule's own nesting.

    ValueError with the message where a check of the rule failed.
    """
    rule = registry.find(overload)
    assert rule is not None, f"{overload} has no lowering"
    schema = overload._schema
    leaves: list[Any] = []

    def bind(argument: torch.Argument, value: Any) -> Any:
        runtime = rule.takes_at_runtime(argument)

        def leaf(item: Any) -> Any:
            if isinstance(item, torch.Tensor):
                number = (
                    item.dim() == 0 and item.is_wrapped_number()
                    if hasattr(item, "is_wrapped_number")
                    else False
                )
                leaves.append(jnp.asarray(to_array(item)))
                place, weak = len(leaves) - 1, number
            elif runtime and isinstance(item, (bool, int, float, complex)):
                leaves.append(jnp.asarray(item))
                place, weak = len(leaves) - 1, True
            else:
                return lambda arrays: item
            return lambda arrays: (
                jax._src.lax.lax._convert_element_type(arrays[place], weak_type=True)
                if weak
                else arrays[place]
            )

        if isinstance(value, (list, tuple)):
            parts = [leaf(item) for item in value]
            return lambda arrays: [part(arrays) for part in parts]
        return leaf(value)

    with jax.enable_x64(True), jax.default_matmul_precision("highest"):
        positional, named = [], {}
        for place, argument in enumerate(a for a in schema.arguments if not a.is_out):
            if argument.name == "generator" and "Generator" in str(argument.type):
                continue
            if place < len(args) and not argument.kwarg_only:
                value = args[place]
            else:
                value = kwargs.get(argument.name, argument.default_value)
            bound = bind(argument, value)
            if argument.kwarg_only:
                named[argument.name] = bound
            else:
                positional.append(bound)
        random = torch.Tag.nondeterministic_seeded in overload.tags
        sizes: dict[str, Any] = {}

        def call(function: Any, arrays: list) -> Any:
            keywords = {name: bound(arrays) for name, bound in named.items()} | sizes
            if random:
                keywords["generator"] = jax.random.key(seed)
            return function(*(bound(arrays) for bound in positional), **keywords)

        if rule.size is not None:
            size = call(rule.size, leaves)
            sizes["size"] = None if size is None else 1 << max(0, int(size) - 1).bit_length()

        @jax.jit
        def traced(arrays: list) -> Any:
            with registry.collect_checks() as checks:
                result = call(rule.function, arrays)
                return result, checks.code(), [jnp.int32(0)] * len(checks.errors)

        errors: list = []
        result, code, _ = traced(leaves)
        if int(code):
            with registry.collect_checks() as checks:
                call(rule.function, leaves)
            errors = checks.errors
            raise ValueError(errors[int(code) - 1][1])
        return result


class Shadow(TorchDispatchMode):
    """Compare every op that has a rule with what CPU PyTorch gives for it.

    ``seen`` counts compared calls per op name, ``unserved`` those of ops without a rule.
    """

    def __init__(self, rtol: float | None = None, atol: float | None = None, skip: tuple = ()):
        super().__init__()
        self.tolerance = {} if rtol is None else {"rtol": rtol, "atol": atol}
        self.skip = skip
        self.seen: dict[str, int] = {}
        self.unserved: dict[str, int] = {}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        name = str(func)
        flat = [x for x in tree_flatten((args, kwargs))[0] if isinstance(x, torch.Tensor)]
        random = torch.Tag.nondeterministic_seeded in func.tags
        if func in UNDEFINED:
            return func(*args, **kwargs)
        if (
            func in self.skip
            or func.is_view
            or random
            or registry.find(func) is None
            or any(t.layout != torch.strided for t in flat)
        ):
            if not random and not func.is_view and func not in self.skip:
                self.unserved[name] = self.unserved.get(name, 0) + 1
            return func(*args, **kwargs)
        copy = tree_map(lambda x: x.clone() if isinstance(x, torch.Tensor) else x, (args, kwargs))
        expected = func(*args, **kwargs)
        got = run_rule(func, *copy)
        rule = registry.find(func)
        values = expected if isinstance(expected, tuple) else (expected,)
        values = () if expected is None else values
        schema = func._schema
        returned = {
            str(r.alias_info.before_set) for r in schema.returns if r.alias_info is not None
        }
        bound = dict(zip((a.name for a in schema.arguments), args, strict=False)) | kwargs
        extra = tuple(
            bound[a.name]
            for a in schema.arguments
            if bound.get(a.name) is not None
            and (
                (
                    a.alias_info is not None
                    and a.alias_info.is_write
                    and str(a.alias_info.before_set) not in returned
                )
                or a.name in rule.writes
            )
        )
        got = got if isinstance(got, tuple) else (got,)
        pairs = list(zip(values + extra, got, strict=False))
        assert len(got) >= len(values + extra), (
            f"{name}: rule returned {len(got)} of {len(values + extra)} results"
        )
        for want, have in pairs:
            wants = want if isinstance(want, (list, tuple)) else [want]
            haves = have if isinstance(have, (list, tuple)) else [have]
            assert len(wants) == len(haves), f"{name}: {len(haves)} results, expected {len(wants)}"
            for w, h in zip(wants, haves, strict=True):
                if not isinstance(w, torch.Tensor):
                    continue
                assert h is not None, f"{name}: undefined result"
                if rule.size is not None and tuple(h.shape) != tuple(
                    w.shape
                ):  # padded to the bound
                    h = h[tuple(slice(0, n) for n in w.shape)]
                assert tuple(h.shape) == tuple(w.shape), (
                    f"{name}: shape {h.shape}, expected {tuple(w.shape)}"
                )
                have_tensor = to_tensor(h, w.dtype)
                assert_close(
                    have_tensor,
                    w.detach().resolve_conj().resolve_neg(),
                    equal_nan=True,
                    **self.tolerance,
                    msg=lambda m: f"{name}: {m}",
                )
        self.seen[name] = self.seen.get(name, 0) + 1
        return expected


def run_samples(
    op: Any, dtype: torch.dtype, grad: bool = False, limit: int = 50, **tolerance: float
) -> Shadow:
    """Run an OpInfo's CPU samples (and their backward) inside Shadow; the mode, for its counts."""
    shadow = Shadow(**tolerance)
    for number, sample in enumerate(op.sample_inputs("cpu", dtype, requires_grad=grad)):
        if number >= limit:
            break
        with shadow:
            result = op(sample.input, *sample.args, **sample.kwargs)
            if grad:
                outputs = [
                    t
                    for t in tree_flatten(result)[0]
                    if isinstance(t, torch.Tensor) and t.requires_grad
                ]
                inputs = [
                    t
                    for t in tree_flatten((sample.input, sample.args, sample.kwargs))[0]
                    if isinstance(t, torch.Tensor) and t.requires_grad
                ]
                if outputs and inputs:
                    torch.autograd.grad(
                        outputs, inputs, [torch.ones_like(o) for o in outputs], allow_unused=True
                    )
    return shadow
