"""Annotators who cheat, copy, depend on each other or change: detectors over (Result, Annotations)."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

# One module per detector, each with `score(result, ...)`, and what is done about groups (`dependence` finds them in the
# votes alone); loaded when asked for.
__all__ = ["against", "capacity", "cautious", "colluders", "copiers", "covariance", "dependence", "drift", "eigen_scores"]
__all__ += ["fusion", "groups", "jaffe", "members", "named", "pruning", "raykar_yu", "spammers", "spem", "table"]


def __getattr__(name: str) -> ModuleType:
    if name not in __all__:
        raise AttributeError(f"module 'crowdwise.trust.crowd' has no attribute {name!r}")
    return import_module(f"crowdwise.trust.crowd.{name}")
