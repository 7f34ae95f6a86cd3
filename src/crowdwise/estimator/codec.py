"""Values as JSON and arrays, and back: what a saved fit and a checkpoint are made of. No code of a file is run.

A plain value stands for itself. Everything else is an object with one key that says what it is::

    {"array": "votes/label"}    {"list": [...]}    {"tuple": [...]}    {"mapping": [[key, value], ...]}
    {"class": "Confusion", "fields": {"pi_alk": {"array": "annotators/pi_alk"}}}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from importlib import import_module
from os import PathLike, fspath
from pkgutil import iter_modules
from typing import Any

import numpy as np

from crowdwise.data.storable import storable_class
from crowdwise.estimator.saved import check_fields

__all__ = ["Unsavable", "pack", "unpack"]

# Rooms whose modules register storable classes when they are loaded.
_PARTS = ("crowdwise.parts.annotators", "crowdwise.parts.priors")


class Unsavable(TypeError):
    """A value that only the user's own code can make again: a function, a network, an estimator."""


def pack(value: Any, name: str, arrays: dict[str, Any]) -> Any:
    """`value` as JSON can hold it; its arrays are put into `arrays` under `name`."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        arrays[name] = value
        return {"array": name}
    if isinstance(value, Mapping):
        # JSON turns the keys of an object into text; class shares are keyed by integers and booleans too.
        pairs = [[pack(key, name, {}), pack(part, f"{name}/{key}", arrays)] for key, part in value.items()]
        return {"mapping": pairs}
    if isinstance(value, list | tuple):
        kind = "list" if isinstance(value, list) else "tuple"
        return {kind: [pack(part, f"{name}/{number}", arrays) for number, part in enumerate(value)]}
    if is_dataclass(value) and storable_class(type(value).__name__) is type(value):
        own = {f.name: pack(getattr(value, f.name), f"{name}/{f.name}", arrays) for f in fields(value) if f.init}
        return {"class": type(value).__name__, "fields": own}
    if isinstance(value, PathLike):
        return fspath(value)
    if callable(value) or hasattr(value, "get_params"):
        raise Unsavable(f"a {type(value).__name__} cannot be saved")
    if hasattr(value, "tolist"):  # tensors, which need not be installed
        return pack(value.tolist(), name, arrays)
    raise TypeError(f"{name}: a value of type {type(value).__name__} cannot be saved")


def unpack(plain: Any, arrays: Mapping[str, Any]) -> Any:
    """The value that `pack` took apart; classes that are not storable, and arrays that contradict each other, are refused."""
    if isinstance(plain, str):
        plain.encode()  # half of a surrogate pair could never be written again
    if plain is None or isinstance(plain, bool | int | float | str):
        return plain
    kind = next(iter(plain))
    if kind == "array":
        return arrays[plain["array"]]
    if kind == "mapping":
        return {unpack(key, {}): unpack(part, arrays) for key, part in plain["mapping"]}
    if kind in ("list", "tuple"):
        made = [unpack(part, arrays) for part in plain[kind]]
        return made if kind == "list" else tuple(made)
    if kind != "class":
        raise ValueError(f"a value of the unknown kind {kind!r}")
    cls, made_of = _class_of(plain["class"]), {name: unpack(part, arrays) for name, part in plain["fields"].items()}
    check_fields(cls, made_of)
    value = cls(**made_of)
    if hasattr(value, "sound") and not value.sound():
        raise ValueError("its arrays contradict each other")
    return value


def _class_of(name: str) -> type:
    """A registered class; a method may use parts that its own module does not load."""
    found = storable_class(name)
    for room in _PARTS if found is None else ():
        for module in iter_modules(import_module(room).__path__, f"{room}."):
            try:
                import_module(module.name)
            except ModuleNotFoundError as problem:
                # Priors that are networks need torch; those of a result do not.
                if problem.name is None or problem.name.startswith("crowdwise"):
                    raise
        found = found or storable_class(name)
    if found is None:
        raise ValueError(f"a value of the unknown class {name!r}")
    return found
