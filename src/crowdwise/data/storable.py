"""Classes that may be saved, by name: each registers itself, and files can make no others."""

from __future__ import annotations

from dataclasses import is_dataclass
from typing import Any, TypeVar

import numpy as np

__all__ = ["pointers", "storable", "storable_class", "within"]

Class = TypeVar("Class", bound=type)

_CLASSES: dict[str, type] = {}


def storable(cls: Class) -> Class:
    """Let a frozen dataclass be saved and loaded, under its name; a second class of one name is refused.

    Fields may be arrays, plain values, mappings, lists, tuples, None and other storable values. A method ``sound()`` that
    returns False for arrays that contradict each other is asked of what was read from a file.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @storable
    ... @dataclass(frozen=True)
    ... class Point:
    ...     x: float
    >>> storable_class("Point")
    <class 'crowdwise.data.storable.Point'>
    """
    if not is_dataclass(cls):
        raise TypeError(f"{cls.__name__} is no dataclass; write @storable above @dataclass")
    known = _CLASSES.setdefault(cls.__name__, cls)
    if (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
        raise TypeError(f"there is already a storable class {cls.__name__!r} in {known.__module__}; choose another name")
    # The same class again: its module was loaded a second time.
    _CLASSES[cls.__name__] = cls
    return cls


def storable_class(name: str) -> type | None:
    """The class of this name, where one has registered itself."""
    return _CLASSES.get(name)


def within(codes: Any, low: int, stop: int) -> bool:
    """Whether all codes are in ``low <= code < stop``: compiled loops trust their indices."""
    return bool(np.issubdtype(codes.dtype, np.integer) and ((codes >= low) & (codes < stop)).all())


def pointers(ptr: Any, n_groups: int, n_rows: int) -> bool:
    """Whether ``ptr`` cuts rows into groups."""
    return bool(
        ptr.shape == (n_groups + 1,)
        and np.issubdtype(ptr.dtype, np.integer)
        and (ptr[0], ptr[-1]) == (0, n_rows)
        and (np.diff(ptr) >= 0).all()
    )
