"""Methods for annotations that are not one class per item: by name, as in the other registries."""

from __future__ import annotations

from crowdwise.aggregate.registry import Method

__all__ = ["TASKS"]

TASKS: dict[str, Method] = {}
