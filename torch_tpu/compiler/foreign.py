"""Kernels outside XLA that a program may call: LAPACK, on the CPU platform.

JAX lowers factorizations for ``cpu`` to custom calls that a bare plugin lacks; jaxlib carries
their handlers, and they are loaded when a program first names one.
"""

from __future__ import annotations

import functools

from torch_tpu import _C


def register_targets(module: bytes, platform: str) -> tuple[str, ...]:
    """Make the custom-call targets that a serialised module names known to the plugin.

    Returns the families registered, for a stored executable to be loaded with ``register``.
    """
    families = ("lapack",) if b"lapack_" in module and platform == "cpu" else ()
    register(families)
    return families


def register(families: tuple[str, ...]) -> None:
    """Make families of custom-call targets known to the plugin, once each."""
    if "lapack" in families:
        _register_lapack()


@functools.cache
def _register_lapack() -> None:
    from jaxlib.cpu import _lapack

    _lapack.initialize()
    for target, handler in _lapack.registrations().items():
        if target.endswith("_ffi"):
            _C.register_ffi_handler(target, handler, "Host")
