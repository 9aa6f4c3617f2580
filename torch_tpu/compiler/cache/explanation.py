"""Why a program that should have been in the cache is not."""

from collections.abc import Sequence

from torch_tpu.compiler.cache.directory import Directory
from torch_tpu.compiler.cache.fingerprint import Namespace
from torch_tpu.compiler.cache.trust import Untrusted


def why_missing(namespace: Namespace, directories: Sequence[Directory]) -> str:
    """One clause per directory."""
    return "; ".join(_why_missing_from(each, namespace) for each in directories) or (
        "no directory is in use"
    )


def _why_missing_from(directory: Directory, namespace: Namespace) -> str:
    try:
        directory.check()
        found = directory.facts()
    except FileNotFoundError:
        return f"{directory.root} does not exist"
    except (Untrusted, OSError) as error:
        return f"{directory.root} can't be used: {error}"
    if not found:
        return f"{directory.root} has no entries"
    if namespace.name in found:
        return f"{directory.root} has other programs for this target, but not this one"
    nearest = min((differences(facts, namespace.facts) for facts in found.values()), key=len)
    return (
        f"{directory.root} has programs of other versions or targets only; the nearest differs in "
        + ", ".join(nearest)
    )


def differences(theirs: dict[str, str], ours: dict[str, str]) -> list[str]:
    """The facts that differ, as "torch 2.13.0 (here 2.13.1)"."""
    return [
        f"{name} {theirs.get(name) or 'unset'} (here {ours.get(name) or 'unset'})"
        for name in sorted({*theirs, *ours})
        if theirs.get(name, "") != ours.get(name, "")
    ]
