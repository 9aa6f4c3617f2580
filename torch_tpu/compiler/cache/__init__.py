"""The compile cache beyond memory: a directory of this host, and one shared between hosts.

    cache = torch_tpu.compiler.cache.current()
    cache.set_namespace(namespace("cpu", version, device_kind, plugin_path))

    found = cache.get(key)
    if found is None:
        cache.require(label, key)
        with cache.compiling(key):
            found = cache.get(key)
            if found is None:
                cache.put(key, compile(...), label)

Imports neither JAX nor a plugin.
"""

import functools

from torch_tpu.compiler.cache.fingerprint import Namespace, namespace
from torch_tpu.compiler.cache.locations import from_environment
from torch_tpu.compiler.cache.program_cache import ProgramCache

__all__ = ["Namespace", "ProgramCache", "current", "namespace", "statistics"]


@functools.cache
def current() -> ProgramCache:
    """The cache of this process, made from the environment at the first call."""
    return from_environment()


def statistics() -> dict[str, int]:
    """Entries and bytes on disk; this process's hits, misses, writes and rejected entries."""
    return current().statistics()
