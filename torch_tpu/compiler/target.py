"""What a program is compiled for: a device of the client, or a TPU that need not be there."""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Sequence
from typing import Protocol

from torch_tpu import _C, runtime

Flags = Sequence[tuple[str, bool | int | float | str]]


class Target(Protocol):
    """What compiles StableHLO (text or bytecode), with XLA's ``flags`` for the one program."""

    @property
    def platform(self) -> str:
        """JAX's name of what its lowerings are for: "cpu", "tpu" or "cuda"."""

    def compile(self, module: bytes, flags: Flags = ()) -> _C.Executable | _C.CompiledProgram: ...


@dataclasses.dataclass(frozen=True)
class Device:
    """A device of the client, which loads what is compiled for it."""

    ordinal: int

    @property
    def platform(self) -> str:
        return client_platform()

    def compile(self, module: bytes, flags: Flags = ()) -> _C.Executable:
        return _C.compile(module, self.ordinal, flags)


class Topology:
    """TPU chips that need not be there, in libtpu's words: ``v5e:2x2``, ``tpu7x:2x2x1``.

    Programs for it can be kept and looked into, but not run. A malformed program may end the
    process: libtpu aborts where a client returns an error.

    RuntimeError: libtpu is not installed, or knows no such topology.
    """

    platform = "tpu"

    def __init__(self, name: str):
        path = runtime.PLUGINS["tpu"].path()
        if path is None:
            raise RuntimeError(f"compiling for {name!r} takes libtpu: pip install 'torch_tpu[tpu]'")
        runtime.prepare_environment("tpu")
        # Topologies lock no chips, so other processes may hold libtpu at the same time.
        os.environ.setdefault("ALLOW_MULTIPLE_LIBTPU_LOAD", "1")
        self.name = name
        self._described = _C.Topology(str(path), name)

    def __repr__(self) -> str:
        return f"Topology({self.name!r})"

    @property
    def device_count(self) -> int:
        return self._described.device_count

    @property
    def device_kind(self) -> str:
        return self._described.device_kind

    def compile(self, module: bytes, flags: Flags = ()) -> _C.CompiledProgram:
        return self._described.compile(module, flags)


@functools.cache
def client_platform() -> str:
    """The platform of the client's devices."""
    return _C.platform_name()
