"""Keeps a Shadow to one family of rules, so that a family's tests compile no other's."""

from typing import Any

from torch_tpu.lowering import registry


class Outside:
    """For ``Shadow(skip=...)``: every op whose rule is in none of these modules."""

    def __init__(self, *modules: str):
        self.modules = {f"torch_tpu.lowering.{module}" for module in modules}

    def __contains__(self, op: Any) -> bool:
        rule = registry.find(op)
        return rule is not None and rule.function.__module__ not in self.modules
