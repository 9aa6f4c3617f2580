"""The forms in which a sample of PyTorch's op database is called, on any device.

Each is a function from an op and a sample to calls and what they are called with; ``VARIANTS``
says by name what samples a form takes and whether gradients are part of it.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch.autograd import forward_ad
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten

Calls = Iterator[tuple[Callable[..., Any], Any]]
Tensor = torch.Tensor

# How many of an op's samples are looked through for empty ones, and how many are cut.
SEARCHED, CUT = 200, 10

# The CPU's own kernels crash the process where tensors that should agree are cut.
CRASH = {"_chunk_cat", "_native_batch_norm_legit", "_segment_reduce", "native_batch_norm"}


def tensors(value: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, Tensor)]


# ---- the ways to call an op


def _functional(op: Any, sample: Any) -> Calls:
    yield op, sample


def _noncontiguous(op: Any, sample: Any) -> Calls:
    yield op, sample.noncontiguous()


def _inplace(op: Any, sample: Any) -> Calls:
    if op.inplace_variant is not None and not sample.broadcasts_input:
        yield op.inplace_variant, sample


def _out(op: Any, sample: Any) -> Calls:
    """``out=`` of the right size, strided, of a wrong size, and of a wrong dtype."""
    if not op.supports_out:
        return
    makers = {
        "right": lambda t: torch.empty_like(t).zero_(),
        "strided": lambda t: t.new_zeros((*t.shape, 2))[..., 0],
        "wrong size": lambda t: t.new_zeros((*t.shape, 1, 3)),
        "empty": lambda t: t.new_zeros((0,)),
        "wrong dtype": lambda t: torch.zeros_like(t, dtype=torch.int32),
    }
    for make in makers.values():

        def call(*args: Any, make: Any = make, **kwargs: Any) -> Any:
            with torch.no_grad():
                plain = op(*args, **kwargs)
                single = isinstance(plain, Tensor)
                out = make(plain) if single else tuple(make(each) for each in plain)
                return op(*args, **kwargs, out=out)

        yield call, sample


# ---- derivatives


def _random_like(given: Iterable[Tensor]) -> list[Tensor]:
    """The same numbers on every device and in every precision."""
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(t.shape, generator=generator).to(t.device, t.dtype) for t in given]


def _processed(op: Any, sample: Any) -> tuple[Callable[..., list[Tensor]], Any]:
    """The op with what its sample says of the outputs, and the sample saying no more of them."""
    process, plain = sample.output_process_fn_grad, copy.copy(sample)
    plain.output_process_fn_grad = lambda output: output
    return lambda *args, **kwargs: tensors(process(op(*args, **kwargs))), plain


def _forward_ad(op: Any, sample: Any) -> Calls:
    """The values and the tangents of outputs, where inputs have tangents."""
    if not op.supports_forward_ad:
        return
    function, sample = _processed(op, sample)

    def call(*args: Any, **kwargs: Any) -> Any:
        tangents = iter(_random_like(_differentiable((args, kwargs))))

        def dual(leaf: Any) -> Any:
            needed = isinstance(leaf, Tensor) and leaf.requires_grad
            return forward_ad.make_dual(leaf.detach(), next(tangents)) if needed else leaf

        with forward_ad.dual_level():
            args, kwargs = tree_map(dual, (args, kwargs))
            return [tuple(forward_ad.unpack_dual(t)) for t in function(*args, **kwargs)]

    yield call, sample


def _differentiable(value: Any) -> list[Tensor]:
    return [t for t in tensors(value) if t.requires_grad]


def _second_derivatives(op: Any, sample: Any) -> Calls:
    """The gradients of gradients, of inputs and of what backward starts from."""
    if not op.supports_gradgrad:
        return
    function, sample = _processed(op, sample)

    def call(*args: Any, **kwargs: Any) -> Any:
        inputs = _differentiable((args, kwargs))
        outputs = _differentiable(function(*args, **kwargs))
        if not inputs or not outputs:
            return []
        seeds = [seed.requires_grad_() for seed in _random_like(outputs)]
        first = _gradients(outputs, inputs, seeds, create_graph=True)
        if not _differentiable(first):
            return first
        graphs = _differentiable(first)
        return first + _gradients(graphs, inputs + seeds, _random_like(graphs))

    yield call, sample


def _gradients(outputs: Any, inputs: Any, seeds: Any, **settings: Any) -> list[Tensor]:
    """Row-major, as their layout is nobody's promise."""
    gradients = torch.autograd.grad(outputs, inputs, seeds, materialize_grads=True, **settings)
    return [gradient.contiguous() for gradient in gradients]


# ---- vmap


def _vmap(op: Any, sample: Any) -> Calls:
    """Over a new first dimension of the first tensor, of two elements."""
    function, sample = _processed(op, sample)

    def call(*args: Any, **kwargs: Any) -> Any:
        leaves, tree = tree_flatten((args, kwargs))
        place = next(n for n, leaf in enumerate(leaves) if isinstance(leaf, Tensor))
        first = leaves[place]

        def of_element(element: Tensor) -> Any:
            inner = [*leaves[:place], element, *leaves[place + 1 :]]
            args, kwargs = tree_unflatten(inner, tree)
            return tuple(function(*args, **kwargs))

        half = first / 2 if first.is_floating_point() or first.is_complex() else first
        return torch.func.vmap(of_element)(torch.stack([first, half]))

    if tensors((sample.input, sample.args, sample.kwargs)):
        yield call, sample


# ---- inputs that are views


def _offset(tensor: Tensor) -> Tensor:
    buffer = torch.cat([tensor.new_zeros(3), tensor.flatten()])
    return buffer[3:].view(tensor.shape)


def _transposed(tensor: Tensor) -> Tensor:
    return tensor.mT.contiguous().mT if tensor.dim() > 1 else tensor


def _expanded(tensor: Tensor) -> Tensor:
    return tensor[:1].expand(tensor.shape) if tensor.dim() and tensor.shape[0] > 1 else tensor


def _negative(tensor: Tensor) -> Tensor:
    return torch._neg_view(-tensor) if tensor.is_floating_point() else tensor


def _conjugate(tensor: Tensor) -> Tensor:
    return tensor.conj_physical().conj() if tensor.is_complex() else tensor


def _views(op: Any, sample: Any) -> Calls:
    """Each tensor at an offset, transposed, expanded, or with its negative or conjugate bit set."""
    for view in (_offset, _transposed, _expanded, _negative, _conjugate):
        changed = _transformed(sample, view)
        given, seen = (tensors((s.input, s.args, s.kwargs)) for s in (sample, changed))
        if any(map(lambda before, after: before is not after, given, seen)):
            yield op, changed


def _transformed(sample: Any, change: Callable[[Tensor], Tensor]) -> Any:
    def strided(leaf: Any) -> Any:
        return change(leaf) if getattr(leaf, "layout", None) == torch.strided else leaf

    changed = sample.transform(strided)
    return changed.with_metadata(
        output_process_fn_grad=sample.output_process_fn_grad,
        broadcasts_input=sample.broadcasts_input,
    )


# ---- what a form is called with


def _first_samples(op: Any, dtype: torch.dtype, count: int, grad: bool) -> Iterator[Any]:
    yield from itertools.islice(op.sample_inputs("cpu", dtype, requires_grad=grad), count)


def _refused_samples(op: Any, dtype: torch.dtype, count: int, grad: bool) -> Iterator[Any]:
    """All that the database knows to be refused, of whatever dtype."""
    if op.error_inputs_func is not None:
        for refused in op.error_inputs("cpu"):
            yield refused.sample_input


def _empty_samples(op: Any, dtype: torch.dtype, count: int, grad: bool) -> Iterator[Any]:
    """With a size of 0, and with a 0-dim tensor: the database's, else cut from others."""
    given = list(_first_samples(op, dtype, SEARCHED, grad))
    for is_wanted, cuts in ((_has_no_elements, _without_elements), (_is_number, _numbers)):
        found = [s for s in given if any(map(is_wanted, tensors((s.input, s.args, s.kwargs))))]
        cut = () if op.name in CRASH else _accepted(op, map(cuts, given[:CUT]))
        yield from itertools.islice(found or cut, count)


def _has_no_elements(tensor: Tensor) -> bool:
    return tensor.numel() == 0


def _is_number(tensor: Tensor) -> bool:
    return tensor.dim() == 0


def _without_elements(sample: Any) -> Iterator[Any]:
    """A sample with its first tensor cut to nothing along a dimension, others where they agree."""
    first = next(iter(tensors((sample.input, sample.args, sample.kwargs))), torch.empty(()))
    for dim, size in enumerate(first.shape):

        def cut(tensor: Tensor, dim: int = dim, size: int = size) -> Tensor:
            agrees = tensor.shape[dim : dim + 1] == (size,)
            return tensor.narrow(dim, 0, 0).clone() if agrees else tensor

        yield _transformed(sample, cut)


def _numbers(sample: Any) -> Iterator[Any]:
    yield _transformed(sample, lambda t: t.flatten()[0].clone() if t.numel() else t)


def _accepted(op: Any, cut: Iterable[Iterator[Any]]) -> Iterator[Any]:
    """The first of each sample's cuts that the CPU accepts."""
    for cuts in cut:
        yield from itertools.islice(filter(functools.partial(_runs, op), cuts), 1)


def _runs(op: Any, sample: Any) -> bool:
    try:
        op(copy.deepcopy(sample.input), *sample.args, **sample.kwargs)
    except Exception:  # whatever the CPU refuses is not asked of the device
        return False
    return True


@dataclasses.dataclass(frozen=True)
class Form:
    """A way to call an op, and the samples for it.

    Where it is ``differentiable`` the samples require gradients, if the op has them; ``gradients``
    says that they are compared besides what the call returns.
    """

    calls: Callable[[Any, Any], Calls]
    gradients: bool = False
    differentiable: bool = False
    samples: Callable[[Any, torch.dtype, int, bool], Iterator[Any]] = _first_samples

    def __call__(self, op: Any, sample: Any) -> Calls:
        return self.calls(op, sample)


VARIANTS = {
    "functional": Form(_functional, gradients=True, differentiable=True),
    "noncontiguous": Form(_noncontiguous, gradients=True, differentiable=True),
    "inplace": Form(_inplace),
    "out": Form(_out),
    "errors": Form(_functional, samples=_refused_samples),
    "forward AD": Form(_forward_ad, differentiable=True),
    "gradgrad": Form(_second_derivatives, differentiable=True),
    "vmap": Form(_vmap),
    "empty": Form(_functional, gradients=True, differentiable=True, samples=_empty_samples),
    "views": Form(_views),
}
