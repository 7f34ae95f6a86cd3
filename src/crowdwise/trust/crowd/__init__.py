"""Annotators who cheat, copy, depend on each other or change: detectors over (Result, Annotations)."""

from __future__ import annotations

from importlib import import_module
from typing import Any

# `check` is the check of the command line in one call. The others are modules: one per detector, each with a function
# `score(result, ...)`, and what is done about groups (`dependence` finds them in the votes alone). Loaded when asked for.
__all__ = ["against", "capacity", "cautious", "check", "colluders", "copiers", "covariance", "dependence", "drift"]
__all__ += [
    "eigen_scores",
    "fusion",
    "groups",
    "jaffe",
    "members",
    "named",
    "pruning",
    "raykar_yu",
    "spammers",
    "spem",
    "table",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'crowdwise.trust.crowd' has no attribute {name!r}")
    if name == "check":
        return import_module("crowdwise.trust.crowd.checked").check
    return import_module(f"crowdwise.trust.crowd.{name}")
