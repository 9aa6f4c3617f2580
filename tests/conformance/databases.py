"""PyTorch's databases of ops, modules and optimizers as cases: each runs on a device, or compiled.

``DATABASES`` has them by name, and what dtypes and forms each has; modes.py checks them, run.py
runs them all.
"""

from __future__ import annotations

import copy
import dataclasses
import io
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any
from unittest import mock

import torch
from forms import VARIANTS, tensors
from op_samples import (
    Case,
    Draws,
    Result,
    gradients_of,
    moved,
    name_of,
    supported,
)
from torch.testing._internal import common_methods_invocations as ops
from torch.testing._internal.common_modules import module_db
from torch.testing._internal.common_optimizers import optim_db

# The steps themselves ask Dynamo for a graph break, under every backend.
BREAKS = {"fullgraph": False}
STEPS = 3

# PyTorch's own samples of lists have twenty tensors and more; four tell as much of each overload.
LIST_LENGTH = 4
LIST_SAMPLES = 16
ALL = sys.maxsize  # samples: who takes them decides how many


def compiled(function: Callable[..., Any], backend: str, **settings: Any) -> Callable[..., Any]:
    """A function as torch.compile makes it, with nothing left of what was compiled before."""
    torch._dynamo.reset()
    return torch.compile(function, **{"backend": backend, "fullgraph": True, **settings})


# ---- a case of each database: ``on`` runs it, compiled if it is told a backend


@dataclasses.dataclass(frozen=True)
class OpCase(Case):
    """One sample of an op."""

    def on(self, device: str, dtypes: Any = None, backend: str | None = None) -> Result:
        call = self.call
        if backend is not None:
            call = compiled(_plain(call), backend, dynamic=False)
        with mock.patch.object(ops, "wrapper_set_seed", _plain_call):
            return _OpRun(self.op, call, self.sample, self.grad).on(device, dtypes)


class _OpRun(Case):
    def written(self, inputs: Any) -> list[torch.Tensor]:
        """All: batch norm writes its statistics without saying so, and compiled says so."""
        return tensors(inputs)


def _plain_call(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """What stands for the database's wrapper that seeds first, which Dynamo can't trace."""
    return function(*args, **kwargs)


def _plain(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args, **kwargs: function(*args, **kwargs)


@dataclasses.dataclass(frozen=True)
class ModuleCase:
    """A module and what it is called with; ``form`` is what is done to it before the call."""

    info: Any
    given: Any
    training: bool
    dtype: torch.dtype = torch.float32
    form: str = "forward"

    is_defined = True

    def on(self, device: str, dtypes: Any = None, backend: str | None = None) -> Result:
        """Forward and backward on a device."""
        try:
            module, *others = MODULE_FORMS[self.form](self, device, dtypes)
            args, kwargs = self._arguments(device, dtypes)
            call = compiled(module, backend, dynamic=False) if backend else module
            torch.manual_seed(0)
            outputs = tensors(call(*args, **kwargs))
            inputs = [*tensors((args, kwargs)), *module.parameters()]
            gradients = gradients_of(outputs, inputs)
        except Exception as error:  # an error is part of what is compared
            return Result(error=error)
        written = [each.detach() for one in (module, *others) for each in one.state_dict().values()]
        return Result(outputs, outputs, tensors(written), gradients)

    def draws_random_numbers(self) -> bool:
        """Whether the CPU's call advances its generator."""
        module, (args, kwargs) = self.build("cpu"), self._arguments("cpu")
        with Draws() as draws:
            module(*args, **kwargs)
        return draws.seen

    def build(self, device: str, dtypes: Any = None) -> torch.nn.Module:
        """The module, with the state that it has on the CPU."""
        module = self.made(device, dtypes)
        module.load_state_dict(self.made("cpu").state_dict())
        return module

    def made(self, device: str, dtypes: Any = None) -> torch.nn.Module:
        """Made on the device, as some modules keep tensors that they don't move themselves."""
        torch.manual_seed(0)
        given = self.given.constructor_input
        args, kwargs = moved(copy.deepcopy((given.args, given.kwargs)), device, dtypes)
        module = self.info.module_cls(*args, **kwargs).train(self.training)
        if self.info.is_lazy:
            module(*self.given.forward_input.args, **self.given.forward_input.kwargs)
        return module.to(device, (dtypes or {}).get(self.dtype, self.dtype))

    def _arguments(self, device: str, dtypes: Any = None) -> Any:
        forward = self.given.forward_input
        return moved((forward.args, forward.kwargs), device, dtypes)


def _made_there(case: ModuleCase, device: str, dtypes: Any) -> Iterator[torch.nn.Module]:
    yield case.build(device, dtypes)


def _moved_there(case: ModuleCase, device: str, dtypes: Any) -> Iterator[torch.nn.Module]:
    """Moved there, back and there again."""
    yield case.made("cpu", dtypes).to(device).to("cpu").to(device)


def _converted(case: ModuleCase, device: str, dtypes: Any) -> Iterator[torch.nn.Module]:
    """To another dtype and back, on the device: what that rounds away is compared."""
    module = case.build(device, dtypes)
    yield module.to(torch.bfloat16).to((dtypes or {}).get(case.dtype, case.dtype))


def _loaded(case: ModuleCase, device: str, dtypes: Any) -> Iterator[torch.nn.Module]:
    """A module of other weights, given those that another one saved."""
    file = io.BytesIO()
    torch.save(case.build(device, dtypes).state_dict(), file)
    file.seek(0)
    module = case.made(device, dtypes)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.zero_()
    module.load_state_dict(torch.load(file, map_location=device))
    yield module


def _copied(case: ModuleCase, device: str, dtypes: Any) -> Iterator[torch.nn.Module]:
    """A deep copy, and the original, which its call must leave alone."""
    original = case.build(device, dtypes)
    yield copy.deepcopy(original)
    yield original


MODULE_FORMS = {
    "forward": _made_there,
    "to": _moved_there,
    "dtype": _converted,
    "state_dict": _loaded,
    "deepcopy": _copied,
}


@dataclasses.dataclass(frozen=True)
class OptimizerCase:
    """An optimizer with its options, over a few parameters with gradients."""

    info: Any
    options: dict[str, Any]

    is_defined = True

    def on(self, device: str, dtypes: Any = None, backend: str | None = None) -> Result:
        """A few steps on a device."""
        generator = torch.Generator().manual_seed(0)

        def random(*sizes: int) -> torch.Tensor:
            return moved(torch.randn(*sizes, generator=generator), device, dtypes)

        parameters = [random(3, 4).requires_grad_(), random(4, 2).requires_grad_()]
        options = copy.deepcopy(self.options)
        if device == "cpu":
            options.pop("capturable", None)  # which refuses to run there
        try:
            optimizer = self.info.optim_cls(parameters, **options)
            step = compiled(optimizer.step, backend, **BREAKS) if backend else optimizer.step
            for _ in range(STEPS):
                self._set_gradients(parameters, random)
                step(*self._closure(parameters))
        except Exception as error:  # an error is part of what is compared
            return Result(error=error)
        states = [state[key] for state in optimizer.state.values() for key in sorted(state)]
        return Result([], [], parameters + [each.to(device) for each in tensors(states)])

    def draws_random_numbers(self) -> bool:
        return False

    def _set_gradients(self, parameters: list[torch.Tensor], random: Any) -> None:
        for parameter in parameters:
            gradient = random(*parameter.shape)
            sparse = self.info.only_supports_sparse_grads
            parameter.grad = gradient.to_sparse() if sparse else gradient

    def _closure(self, parameters: list[torch.Tensor]) -> tuple[Callable[[], Any], ...]:
        if not self.info.step_requires_closure:
            return ()

        def closure() -> torch.Tensor:
            loss = sum(parameter.square().sum() for parameter in parameters)
            for parameter, gradient in zip(
                parameters, torch.autograd.grad(loss, parameters), strict=True
            ):
                parameter.grad = gradient
            return loss

        return (closure,)


OPTIMIZER_FORMS: dict[str, dict[str, bool]] = {
    "for-loop": {"foreach": False},
    "foreach": {"foreach": True},
    "fused": {"fused": True},
    "capturable": {"capturable": True},
}


def _options(info: Any, form: str) -> dict[str, bool] | None:
    """What asks an optimizer for a form; None where it has none of that."""
    has = {*info.supported_impls, *["capturable"] * info.has_capturable_arg}
    options = OPTIMIZER_FORMS[form]
    if form == "for-loop":
        return options if "foreach" in has else {}
    return options if form in has else None


# ---- the databases


@dataclasses.dataclass(frozen=True)
class Entry:
    """An op, a module or an optimizer by its name, and the cases that its database has of it.

    ``op`` is set where op_samples.py checks the entry in the eager modes.
    """

    name: str
    cases: Callable[[torch.dtype, str], Iterator[Any]]
    dtypes: frozenset[torch.dtype]
    op: Any = None
    least: int = 0  # samples, however few are asked for


def _op_cases(op: Any, dtype: torch.dtype, name: str) -> Iterator[OpCase]:
    form = VARIANTS[name]
    grad = op.supports_autograd and dtype in op.supported_backward_dtypes("cpu")
    for sample in form.samples(op, dtype, ALL, grad and form.differentiable):
        for call, arguments in form(op, sample):
            plain = op.get_op() if call is op else call
            yield OpCase(op, plain, arguments, grad and form.gradients)


def _op_entry(op: Any, least: int = 0) -> Entry:
    dtypes = frozenset(dtype for dtype in DTYPES.values() if supported(op, dtype))
    return Entry(name_of(op), partial(_op_cases, op), dtypes, op, least)


class _OfShortLists:
    """A foreach op whose samples are short lists."""

    def __init__(self, op: Any) -> None:
        self.op = op

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.op(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.op, name)

    def sample_inputs(self, *args: Any, **kwargs: Any) -> Iterator[Any]:
        return self.op.sample_inputs(*args, num_input_tensors=[LIST_LENGTH], **kwargs)


def _foreach_entries() -> Iterator[Entry]:
    for kind in ("unary", "binary", "pointwise", "reduce", "other"):
        for op in getattr(ops, f"foreach_{kind}_op_db"):
            yield _op_entry(_OfShortLists(op), LIST_SAMPLES)


def _module_entries() -> Iterator[Entry]:
    for info in module_db:
        name = info.name.replace("nn_", "nn.", 1)
        yield Entry(name, partial(_module_cases, info), frozenset(info.dtypes))


def _module_cases(info: Any, dtype: torch.dtype, form: str) -> Iterator[ModuleCase]:
    for training in (True, False) if info.train_and_eval_differ else (True,):
        for given in info.module_inputs_func(
            info, device="cpu", dtype=dtype, requires_grad=True, training=training
        ):
            yield ModuleCase(info, given, training, dtype, form)


def _optimizer_entries() -> Iterator[Entry]:
    for info in optim_db:
        cases = partial(_optimizer_cases, info)
        yield Entry(info.optim_cls.__name__, cases, frozenset({torch.float32}))


def _optimizer_cases(info: Any, dtype: torch.dtype, form: str) -> Iterator[OptimizerCase]:
    asked = _options(info, form)
    if asked is not None:
        for given in info.optim_inputs_func(device="cpu"):
            yield OptimizerCase(info, {**given.kwargs, **asked})


DTYPES = {
    name: getattr(torch, name)
    for name in (
        "float32", "float64", "bfloat16", "float16", "complex64", "int64", "int32", "uint8", "bool",
    )
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Database:
    """Its entries, and the forms in which each can be had."""

    entries: Callable[[], Iterator[Entry]]
    forms: tuple[str, ...]


DATABASES = {
    "ops": Database(lambda: map(_op_entry, ops.op_db), tuple(VARIANTS)),
    "foreach": Database(_foreach_entries, ("functional", "inplace")),
    "references": Database(lambda: map(_op_entry, ops.python_ref_db), ("functional",)),
    "modules": Database(_module_entries, tuple(MODULE_FORMS)),
    "optimizers": Database(_optimizer_entries, tuple(OPTIMIZER_FORMS)),
}
