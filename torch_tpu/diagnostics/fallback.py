"""Ops without a lowering run on the CPU: counted, with one warning each, or refused."""

import collections
import warnings
from collections.abc import Sequence

import torch

from torch_tpu import environment
from torch_tpu.setting import Setting

POLICIES = ("warn", "allow", "error")

_counts: collections.Counter[str] = collections.Counter()
_policy: str = environment.read("TORCH_TPU_FALLBACK")


class fallback_policy(Setting):
    """What an op without a lowering does: ``"warn"`` once and run, ``"allow"``, or ``"error"``.

    Acts at once; as a context manager it restores the policy that was set before.
    """

    def __init__(self, policy: str) -> None:
        if policy not in POLICIES:
            raise ValueError(f"expected one of {', '.join(POLICIES)}, but got {policy!r}")
        super().__init__(policy)

    @staticmethod
    def get() -> str:
        return _policy

    @staticmethod
    def set(policy: str) -> None:
        global _policy
        _policy = policy


def report(op: str, dtypes: Sequence[torch.dtype]) -> None:
    """Called with each op that is about to run on the CPU, and its tensors' dtypes."""
    described = f"{op}({', '.join(str(dtype).removeprefix('torch.') for dtype in dtypes)})"
    if _policy == "error":
        raise NotImplementedError(
            f"{described} has no lowering for tpu, and the fallback policy is 'error'"
        )
    _counts[op] += 1
    if _policy == "warn" and _counts[op] == 1:
        warnings.warn(
            f"{described} has no lowering for tpu and runs on the CPU; its inputs are copied there "
            "and its results back, each time. torch_tpu.diagnostics.fallbacks() counts such calls",
            stacklevel=2,
        )


def fallbacks() -> dict[str, int]:
    """How often each op without a lowering ran on the CPU, by overload name."""
    return dict(_counts)


def reset() -> None:
    """Counts from zero, and warns anew."""
    _counts.clear()
