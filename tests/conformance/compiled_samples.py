"""PyTorch's op, module and optimizer databases compiled for the device, beside the eager CPU.

compiled_run.py runs them; ``check_entry`` is what the tests call.
"""

from __future__ import annotations

import copy
import dataclasses
import itertools
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import torch
from op_samples import (
    Case,
    Draws,
    Result,
    check,
    check_metadata,
    check_values,
    gradients_of,
    moved,
    name_of,
    supported,
    tensors,
)
from torch.testing._internal import common_methods_invocations
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_modules import module_db
from torch.testing._internal.common_optimizers import optim_db

# The steps themselves ask Dynamo for a graph break, under every backend.
BREAKS = {"fullgraph": False}
STEPS = 3

Calls = Iterator[Any]


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
        with mock.patch.object(common_methods_invocations, "wrapper_set_seed", _plain_call):
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
    """A module and what it is called with."""

    info: Any
    given: Any
    training: bool

    is_defined = True

    def build(self, device: str, dtypes: Any = None) -> torch.nn.Module:
        """The module, with the state that it has on the CPU."""
        module = self._built(device, dtypes)
        module.load_state_dict(self._built("cpu").state_dict())
        return module

    def _built(self, device: str, dtypes: Any = None) -> torch.nn.Module:
        """Made on the device, as some modules keep tensors that they don't move themselves."""
        torch.manual_seed(0)
        given = self.given.constructor_input
        args, kwargs = moved(copy.deepcopy((given.args, given.kwargs)), device, dtypes)
        module = self.info.module_cls(*args, **kwargs).train(self.training)
        if self.info.is_lazy:
            module(*self.given.forward_input.args, **self.given.forward_input.kwargs)
        return module.to(device, (dtypes or {}).get(torch.float32))

    def on(self, device: str, dtypes: Any = None, backend: str | None = None) -> Result:
        """Forward and backward on a device."""
        module, (args, kwargs) = self.build(device, dtypes), self._arguments(device, dtypes)
        call = compiled(module, backend, dynamic=False) if backend else module
        torch.manual_seed(0)
        try:
            outputs = tensors(call(*args, **kwargs))
            inputs = [*tensors((args, kwargs)), *module.parameters()]
            gradients = gradients_of(outputs, inputs)
        except Exception as error:  # an error is part of what is compared
            return Result(error=error)
        return Result(outputs, outputs, list(module.buffers()), gradients)

    def draws_random_numbers(self) -> bool:
        """Whether the CPU's call advances its generator."""
        module, (args, kwargs) = self.build("cpu"), self._arguments("cpu")
        with Draws() as draws:
            module(*args, **kwargs)
        return draws.seen

    def _arguments(self, device: str, dtypes: Any = None) -> Any:
        forward = self.given.forward_input
        return moved((forward.args, forward.kwargs), device, dtypes)


@dataclasses.dataclass(frozen=True)
class OptimizerCase:
    """An optimizer with its options, over a few parameters with gradients."""

    info: Any
    given: Any

    is_defined = True

    def on(self, device: str, dtypes: Any = None, backend: str | None = None) -> Result:
        """A few steps on a device."""
        generator = torch.Generator().manual_seed(0)

        def random(*sizes: int) -> torch.Tensor:
            return moved(torch.randn(*sizes, generator=generator), device, dtypes)

        parameters = [random(3, 4).requires_grad_(), random(4, 2).requires_grad_()]
        options = copy.deepcopy(self.given.kwargs)
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


# ---- the databases


@dataclasses.dataclass(frozen=True)
class Entry:
    """An op, a module or an optimizer by its name, and the cases that the database has of it."""

    name: str
    cases: Callable[[], Iterator[Any]]


def _op_entries() -> Iterator[Entry]:
    for op in op_db:
        if supported(op, torch.float32):
            yield Entry(name_of(op), lambda op=op: _op_cases(op))


def _op_cases(op: Any) -> Iterator[OpCase]:
    grad = op.supports_autograd and torch.float32 in op.supported_backward_dtypes("cpu")
    for sample in op.sample_inputs("cpu", torch.float32, requires_grad=grad):
        yield OpCase(op, op.get_op(), sample, grad)


def _module_entries() -> Iterator[Entry]:
    for info in module_db:
        if torch.float32 in info.dtypes:
            yield Entry(info.name.replace("nn_", "nn.", 1), lambda info=info: _module_cases(info))


def _module_cases(info: Any) -> Iterator[ModuleCase]:
    for training in (True, False) if info.train_and_eval_differ else (True,):
        for given in info.module_inputs_func(
            info, device="cpu", dtype=torch.float32, requires_grad=True, training=training
        ):
            yield ModuleCase(info, given, training)


def _optimizer_entries() -> Iterator[Entry]:
    for info in optim_db:
        yield Entry(info.optim_cls.__name__, lambda info=info: _optimizer_cases(info))


def _optimizer_cases(info: Any) -> Iterator[OptimizerCase]:
    for given in info.optim_inputs_func(device="cpu"):
        yield OptimizerCase(info, given)


DATABASES = {
    "ops": _op_entries,
    "modules": _module_entries,
    "optimizers": _optimizer_entries,
}


# ---- checking


@dataclasses.dataclass(frozen=True)
class Compiled:
    """A case whose runs on the device are compiled."""

    case: Any

    @property
    def is_defined(self) -> bool:
        return self.case.is_defined

    def on(self, device: str, dtypes: Any = None) -> Result:
        return self.case.on(device, dtypes, None if device == "cpu" else "tpu")

    def draws_random_numbers(self) -> bool:
        return False  # those cases are compared with eager mode on the device instead


def check_case(case: Any) -> None:
    """Raise where a case that is compiled differs from the CPU, or draws other numbers."""
    if case.draws_random_numbers():
        return _check_draws(case)
    return check(Compiled(case))


def _check_draws(case: Any) -> None:
    """Compiled or not, the device draws the same numbers from a seed."""
    results = []
    for backend in (None, "tpu"):
        torch.manual_seed(0)
        result = case.on("tpu", None, backend)
        if result.error:
            raise result.error
        results.append(result)
    eager, got = results
    for expected, each in zip(eager.outputs, got.outputs, strict=True):
        check_metadata(expected, each)
    if case.is_defined:
        check_values(eager, got, None)


def check_entry(entry: Entry, samples: int) -> int:
    """Check the first cases of an entry; how many there were."""
    torch.manual_seed(0)
    count = 0
    for case in itertools.islice(entry.cases(), samples):
        check_case(case)
        count += 1
    return count


def on_cpu_without_backend(entry: Entry, samples: int) -> str | None:
    """How an entry fails on the CPU where Dynamo and AOTAutograd capture it and nothing more."""
    torch.manual_seed(0)
    for case in itertools.islice(entry.cases(), samples):
        want, have = case.on("cpu"), case.on("cpu", None, "aot_eager")
        if have.error and not want.error:
            return f"{type(have.error).__name__}: {have.error}"
        try:
            check_values(want, have, None)
        except (AssertionError, ValueError) as error:
            return f"other values: {error}"
    return None
