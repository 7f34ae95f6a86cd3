"""Ids in one form: as votes have them, as the campaign wrote them first, and as JSON can hold them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from crowdwise.data.annotations import Annotations
from crowdwise.data.encode import series_of, tidy, to_polars, translate, vocabulary_array
from crowdwise.errors import InputError
from crowdwise.kernels.types import Array

__all__ = ["as_known", "ids_of", "is_empty", "mapping_of", "names_only", "pairs_of", "sliceable"]


def ids_of(values: Iterable[Any], distinct: bool = False) -> Array:
    """Ids as votes have them (int64, bool or objects that hold text), in their order."""
    column = tidy(series_of(values if isinstance(values, np.ndarray | pl.Series) else list(values)))
    return vocabulary_array(column.unique(maintain_order=True) if distinct else column)


def as_known(names: Array, known: Array, what: str) -> Array:
    """The same names as the campaign writes them ("7" where it has 7 is the same); others must be of the same kind."""
    if not len(known) or not len(names) or names.dtype == known.dtype:
        return names
    code = translate(names, known)
    if (code < 0).any():
        stranger = names[code < 0].tolist()[0]
        kind = type(stranger).__name__
        raise InputError(f"{what} {stranger!r} is {kind}, and those of the campaign are such as {known.tolist()[0]!r}")
    return np.asarray(known[code])


def names_only(items: Sequence[Any], annotators: Sequence[Any], classes: Array) -> Annotations:
    """Items and annotators without votes."""
    return Annotations.from_arrays([], [], [], items=items, annotators=annotators, classes=classes.tolist())


def is_empty(votes: Any) -> bool:
    """Whether a frame has no rows."""
    return (hasattr(votes, "columns") or isinstance(votes, dict)) and to_polars(votes).height == 0


def pairs_of(given: Any) -> Any:
    """A mapping as JSON can hold it without turning its keys into text; anything else as it is."""
    if not isinstance(given, Mapping):
        return _plain(given)
    return [[_plain(name), _plain(value)] for name, value in given.items()]


def mapping_of(saved: Any) -> Any:
    """What `pairs_of` was given."""
    if not isinstance(saved, list):
        return saved
    if not all(isinstance(pair, list) and len(pair) == 2 and not isinstance(pair[0], list | dict) for pair in saved):
        raise InputError(f"the campaign is damaged: {saved!r:.60} should be pairs of a name and a number; start from a copy")
    return dict(saved)


def sliceable(features: Any) -> Any:
    """Features whose rows can be taken by position."""
    if hasattr(features, "tocsr"):
        return features.tocsr()
    return features if features is None or isinstance(features, np.ndarray | pl.DataFrame) else np.asarray(features)


def _plain(value: Any) -> Any:
    """A number of numpy as Python's."""
    return value.item() if isinstance(value, np.generic) else value
