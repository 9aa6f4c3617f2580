"""What an executable depends on besides its key. Any difference is another namespace."""

import functools
import hashlib
import importlib.metadata
import os
import platform as host
from dataclasses import dataclass
from pathlib import Path

from torch_tpu import environment

_PACKAGE = Path(__file__).parents[2]
# Flags for the compilers themselves; a program compiled under others is another program.
_COMPILER_FLAGS = ("XLA_FLAGS", "LIBTPU_INIT_ARGS")
_SAMPLES, _SAMPLE = 256, 4096


@dataclass(frozen=True)
class Namespace:
    """``name`` is the folder of its entries, ``facts`` what the name was made of."""

    name: str
    facts: dict[str, str]


def namespace(
    platform: str,
    platform_version: str,
    device_kind: str,
    plugin: Path | None = None,
    **more: str,
) -> Namespace:
    """The namespace of programs for one target, as compiled by this process.

    ``platform`` is the PJRT platform's name, ``plugin`` the plugin's file; ``more`` are further
    facts that tell programs apart, such as a topology.
    """
    facts = {
        "platform": platform,
        "platform version": platform_version,
        "device": device_kind,
        "plugin": plugin_build(plugin) if plugin is not None else "",
        "torch_tpu": _version("torch_tpu"),
        "lowerings": lowering_version(),
        "torch": _version("torch"),
        "jax": _version("jax"),
        "jaxlib": _version("jaxlib"),
        **{name: os.environ.get(name, "") for name in _COMPILER_FLAGS},
        **more,
    }
    if platform == "cpu":
        facts["processor"] = processor()
    text = repr(sorted(facts.items())).encode()
    return Namespace(f"{platform}-{hashlib.sha256(text).hexdigest()[:32]}", facts)


def _version(package: str) -> str:
    if package == "torch_tpu":  # a checkout need not be installed
        import torch_tpu

        return torch_tpu.__version__
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def plugin_build(path: Path) -> str:
    """A digest that tells one build of a plugin from another in a few milliseconds.

    Plugins have hundreds of megabytes, so it covers the size and evenly spaced samples, the
    headers at both ends among them. A file named by TORCH_TPU_PJRT_PLUGIN may be a rebuild with
    hardly a byte changed, so its time counts too; an installed one's must not, since it differs
    between hosts that share a cache.
    """
    status = path.stat()
    digest = hashlib.sha256(str(status.st_size).encode())
    if environment.read("TORCH_TPU_PJRT_PLUGIN") is not None:
        digest.update(str(status.st_mtime_ns).encode())
    last = max(0, status.st_size - _SAMPLE)
    with path.open("rb", buffering=0) as file:
        for sample in range(_SAMPLES):
            file.seek(last * sample // (_SAMPLES - 1))
            digest.update(file.read(_SAMPLE))
    return digest.hexdigest()[:32]


@functools.cache
def lowering_version() -> str:
    """A digest of the sources that turn a key into a program."""
    return digest_of_sources(*(_PACKAGE / name for name in ("lowering", "compiler", "dynamo")))


def digest_of_sources(*folders: Path) -> str:
    """A digest of the folders' Python files, this package apart: it moves bytes only."""
    digest = hashlib.sha256()
    for folder in folders:
        for file in sorted(folder.rglob("*.py")):
            name = file.relative_to(folder)
            if name.parts[0] != "cache":
                content = file.read_bytes()
                digest.update(f"{folder.name}/{name} {len(content)}\n".encode())
                digest.update(content)
    return digest.hexdigest()[:32]


@functools.cache
def processor(description: Path = Path("/proc/cpuinfo")) -> str:
    """A digest of the host's instruction set: XLA's CPU executables are native code."""
    features = [host.system(), host.machine()]
    try:
        lines = description.read_text().splitlines()
    except OSError:
        features.append(host.processor())
    else:
        words = ("flags", "Features")  # x86 and Arm
        listed = next((line for line in lines if line.startswith(words)), "")
        features += sorted(listed.partition(":")[2].split())
    return f"{host.machine()} {hashlib.sha256(' '.join(features).encode()).hexdigest()[:16]}"
