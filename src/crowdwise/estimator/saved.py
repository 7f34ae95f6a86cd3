"""What a value from a file must be like before anything uses it: types, dtypes, finiteness, signs and shapes.

Compiled loops trust their arrays, and everything else would fail later in words of its own. A field's annotation says its type.
Its name says its shape where it ends in the letters of its axes (``pi_alk``: annotators x labels x classes); a class says in
`shapes` what those of its other fields are. A part whose integers point into other arrays has ``fits(votes)``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

__all__ = ["check_fields", "check_parts"]

# Axes with a size that the votes know: items, annotators, labels and classes, votes.
_SIZES = {"n": "n_items", "a": "n_annotators", "l": "n_classes", "k": "n_classes", "e": "n_votes"}
_AXES = re.compile(r"_([a-z]{1,4})$")
# Words that only look like axes: l2 has none, but these do end in one to four letters.
_NO_AXES = ("sd", "iter", "size", "in", "out", "post", "ptr", "rate")
# Probabilities, counts and pseudo-counts, by the first word of their name.
_NOT_NEGATIVE = {
    "prior", "pi", "pooled", "beta", "counts", "earlier", "share", "rho", "habit", "habit0", "alpha", "alpha0", "member",
    "attention", "honest", "honest0", "accuracy", "probability", "posterior", "inferred", "strength", "xi", "h", "right",
    "wrong", "history", "anchor", "mass", "pseudo", "membership", "shared", "lapse",
}  # fmt: skip
_LARGEST = 2**62
# Of answers: those with two axes, and those that are vocabularies.
_TABLES, _VOCABULARIES = {"value", "known_sets"}, {"items", "annotators", "classes", "labels", "sequences"}
_DTYPES = {"Floats": "f", "Integers": "iu", "Flags": "b", "Array": "iufbOU"}


def check_fields(cls: type, values: Mapping[str, Any]) -> None:
    """Raise ValueError for the first field whose value is not what its annotation says."""
    known = {f.name: f for f in fields(cls) if f.init}
    for name, value in values.items():
        if name not in known:
            raise ValueError(f"{cls.__name__} has no field {name!r}")
        wanted = str(known[name].type)
        if not any(_is(part.strip(), value) for part in _alternatives(wanted)):
            raise ValueError(f"{cls.__name__}: {name} is not {wanted}")
        if isinstance(value, np.ndarray) and value.dtype.kind == "f":
            _check_numbers(cls, name, value)
        if wanted.startswith("NDArray[") and value is not None and value.ndim != (2 if name in _TABLES else 1):
            raise ValueError(f"{cls.__name__}: {name} has {value.ndim} axes")
        if name in _VOCABULARIES and isinstance(value, np.ndarray) and len(set(value.tolist())) < len(value):
            raise ValueError(f"{cls.__name__}: {name} has a name twice")


def _alternatives(wanted: str) -> list[str]:
    return [wanted] if "[" in wanted and wanted.endswith("]") else wanted.split(" | ")


def _is(wanted: str, value: Any) -> bool:
    """Whether a value is of the type that an annotation names."""
    if wanted in ("Any", "None"):
        return wanted == "Any" or value is None
    if wanted in ("int", "float"):
        number = isinstance(value, int if wanted == "int" else int | float) and not isinstance(value, bool)
        return number and math.isfinite(value) and abs(value) < _LARGEST
    if wanted in ("bool", "str"):
        return isinstance(value, bool if wanted == "bool" else str)
    if wanted in _DTYPES:
        return isinstance(value, np.ndarray) and value.dtype.kind in _DTYPES[wanted] and value.dtype.isnative
    outer, _, inner = wanted.removesuffix("]").partition("[")
    if outer == "NDArray":
        return _is("Array", value) if inner == "Any" else isinstance(value, np.ndarray) and value.dtype == _dtype(inner)
    if outer in ("dict", "Mapping"):
        key, _, each = inner.partition(", ")
        return isinstance(value, dict) and all(_is(key, name) and _is(each, part) for name, part in value.items())
    if outer in ("tuple", "list"):
        each = inner.removesuffix(", ...")
        return isinstance(value, tuple if outer == "tuple" else list) and all(_is(each, part) for part in value)
    return any(base.__name__ == wanted for base in type(value).__mro__)


def _dtype(name: str) -> np.dtype[Any]:
    found: np.dtype[Any] = np.dtype(getattr(np, name.removeprefix("np.")))
    return found


def _check_numbers(cls: type, name: str, array: Any) -> None:
    """Finite, in single or double precision, and not negative where it counts or is a probability."""
    if array.dtype.itemsize not in (4, 8):
        raise ValueError(f"{cls.__name__}: {name} is of type {array.dtype}")
    if name not in getattr(cls, "may_be_infinite", ()) and not np.isfinite(array).all():
        raise ValueError(f"{cls.__name__}: {name} has a number that is not finite")
    if name.partition("_")[0] in _NOT_NEGATIVE and (array < 0).any():
        raise ValueError(f"{cls.__name__}: {name} has a negative number")


def check_parts(part: Any, votes: Any) -> None:
    """Raise ValueError where arrays of a fitted part have other sizes than the votes, or than each other."""
    if not is_dataclass(part) or isinstance(part, type):
        return
    sizes = {letter: getattr(votes, of) for letter, of in _SIZES.items()}
    shapes: dict[str, str] = getattr(type(part), "shapes", {})
    for f in fields(part):
        value = getattr(part, f.name)
        for each in value if isinstance(value, tuple) else (value,):
            check_parts(each, votes)
        found = _AXES.search(f.name)
        axes = shapes.get(f.name, "" if found is None or found[1] in _NO_AXES else found[1])
        if not isinstance(value, np.ndarray) or not (axes or f.name in shapes):
            continue
        shape = value.shape
        # A prior that is the same for all annotators may be there once.
        shared = f.name.startswith(("prior", "earlier")) and axes[:1] == "a" and shape[:1] == (1,)
        if len(shape) != len(axes):
            raise ValueError(f"{type(part).__name__}: {f.name} has {len(shape)} axes")
        for axis, size in list(zip(axes, shape, strict=False))[shared:]:
            if sizes.setdefault(axis, size) != size:
                raise ValueError(f"{type(part).__name__}: {f.name} has shape {shape}, and the votes are of another size")
    n_classes = getattr(part, "n_classes", votes.n_classes)
    if n_classes != votes.n_classes:
        raise ValueError(f"{type(part).__name__}: {n_classes} classes, and the votes have {votes.n_classes}")
    if hasattr(part, "fits") and not part.fits(votes):
        raise ValueError(f"{type(part).__name__}: its arrays point outside each other")
