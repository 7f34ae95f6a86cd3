"""When one machine, or its memory, is not enough: votes in shards, fitted out of core or on Ray, with the same answers."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from crowdwise.scale.encoding import encode as encode
    from crowdwise.scale.local import Local as Local
    from crowdwise.scale.ray_engine import Ray as Ray
    from crowdwise.scale.store import Store as Store
    from crowdwise.scale.training import Torchrun as Torchrun
    from crowdwise.scale.training_ray import RayTrain as RayTrain

__all__ = ["Local", "Ray", "RayTrain", "Store", "Torchrun", "encode"]

_WHERE = {
    "Local": "local",
    "Ray": "ray_engine",
    "RayTrain": "training_ray",
    "Store": "store",
    "Torchrun": "training",
    "encode": "encoding",
}


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        return getattr(import_module(f"crowdwise.scale.{_WHERE[name]}"), name)
    raise AttributeError(f"module 'crowdwise.scale' has no attribute {name!r}")
