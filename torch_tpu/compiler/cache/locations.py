"""Which directories the environment names, and how they are used."""

import os
import sys
import warnings
from pathlib import Path

from torch_tpu import environment
from torch_tpu.compiler.cache.directory import Directory
from torch_tpu.compiler.cache.program_cache import ProgramCache
from torch_tpu.compiler.cache.tiers import Tier


def platform_directory() -> Path:
    """Where this platform keeps what a program may compute again. RuntimeError without a home."""
    if sys.platform == "darwin":
        return Path.home() / "Library/Caches"
    named = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return named if named.is_absolute() else Path.home() / ".cache"


def disk_directory() -> Directory:
    """This host's directory. RuntimeError where none is named and there is no home to put it in."""
    named = environment.read("TORCH_TPU_CACHE_DIR")
    return Directory(Path(named).expanduser() if named else platform_directory() / "torch_tpu")


def shared_directory() -> Directory | None:
    """The directory shared between hosts, if one is named."""
    names = ("TORCH_TPU_SHARED_CACHE_DIR", "XLA_PERSISTENT_CACHE_PATH")
    named = next(filter(None, map(environment.read, names)), None)
    return Directory(Path(named).expanduser(), shared=True) if named else None


def from_environment() -> ProgramCache:
    """The cache that the environment asks for. ValueError for a value that is not understood."""
    mode: str = environment.read("TORCH_TPU_CACHE")
    if mode == "off":
        return ProgramCache(mode)
    writable = mode == "rw"
    shared = shared_directory()
    tiers = []
    try:
        disk = disk_directory()
    except RuntimeError as error:
        warnings.warn(f"compile cache (disk): {error}: set TORCH_TPU_CACHE_DIR", stacklevel=2)
    else:
        if shared is None or shared.root.absolute() != disk.root.absolute():
            limit = environment.read("TORCH_TPU_CACHE_SIZE")
            tiers.append(Tier("disk", disk, writable, limit))
    if shared is not None:
        tiers.append(Tier("shared", shared, writable))
    return ProgramCache(mode, tuple(tiers))
