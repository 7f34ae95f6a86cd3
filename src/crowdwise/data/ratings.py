"""Numbers that annotators gave to items: ratings, durations, boxes, time spans (`Ratings`).

An immutable list of numbers as they were given, sorted by item, with the vocabularies of items and annotators.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from crowdwise.data.answers import ByItem
from crowdwise.data.columns import columns_by_role
from crowdwise.data.encode import Where, checked_weights, id_codes, series_of, to_polars
from crowdwise.data.known_values import known_values, numbers
from crowdwise.data.missing_codes import missing_codes
from crowdwise.data.storable import storable
from crowdwise.errors import DataWarning, InputError

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Ratings"]

Columns = str | Sequence[str] | None


@storable
@dataclass(frozen=True, eq=False, repr=False)
class Ratings(ByItem):
    """Numbers said by many annotators, one row per answer.

    Attributes
    ----------
    item_ptr : [N + 1]
        The answers on item n stand at ``item_ptr[n]:item_ptr[n + 1]``.
    annotator : [E]
        Code of who answered.
    value : [E, D]
        What was said; D is 1 for plain numbers, 4 for boxes, 2 for time spans.
    items, annotators
        Vocabularies, sorted unless the caller gave an order.
    names
        Names of the D dimensions.
    weight : [E] or None
        An answer of weight 2 counts as two equal answers; None means one each.
    n_missing
        Rows dropped on entry because a value was missing.

    Examples
    --------
    >>> Ratings.from_arrays(["a", "a", "b"], ["ann", "bob", "ann"], [3.5, 4, 1])
    Ratings(3 ratings: 2 items, 2 annotators)
    """

    item_ptr: NDArray[np.int64]
    annotator: NDArray[np.int32]
    value: NDArray[np.float64]
    items: NDArray[Any]
    annotators: NDArray[Any]
    names: tuple[str, ...] = ("value",)
    weight: NDArray[np.float64] | None = None
    n_missing: int = 0

    noun: ClassVar[str] = "ratings"
    per_vote: ClassVar[tuple[str, ...]] = ("annotator", "value", "weight")

    def sound(self) -> bool:
        """Whether the arrays of saved answers agree with each other."""
        return super().sound() and self.value.shape == (self.n_votes, self.n_dimensions)

    @property
    def n_dimensions(self) -> int:
        """Numbers in one answer, D."""
        return len(self.names)

    def __getitem__(self, positions: Any) -> Self:
        """Return the answers at these positions (an index array, mask or slice); vocabularies stay."""
        return self.take_votes(np.atleast_1d(np.arange(self.n_votes)[positions]))

    def _described(self) -> str:
        described = super()._described()
        return described if self.n_dimensions == 1 else described.replace(":", f" of {', '.join(self.names)}:", 1)

    # -- constructors --------------------------------------------------------------------------

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        item: str | None = None,
        annotator: str | None = None,
        value: Columns = None,
        weight: str | None = None,
        items: Sequence[Any] | None = None,
        annotators: Sequence[Any] | None = None,
    ) -> Self:
        """Build from a long pandas, polars or Arrow frame with one row per answer.

        Columns not named are found among the usual names (item, annotator, value, score, rating, ...). `value` may name
        several columns, such as ``["x1", "y1", "x2", "y2"]``.
        """
        names = _names(value)
        roles = {"item": item, "annotator": annotator} | _value_roles(names)
        table, where = columns_by_role(frame, roles, {"weight": weight})
        return cls.from_columns(table, where, names or ("value",), items, annotators)

    @classmethod
    def from_arrays(
        cls,
        item: Any,
        annotator: Any,
        value: Any,
        *,
        weight: Any = None,
        items: Sequence[Any] | None = None,
        annotators: Sequence[Any] | None = None,
        names: Sequence[str] | None = None,
    ) -> Self:
        """Build from columns of equal length; `value` has a number per row, or D of them, [E, D].

        `items` and `annotators` fix the vocabularies and their order; they may contain entries without answers.
        """
        cells = np.asarray(value, dtype=object) if isinstance(value, list | tuple) else np.asarray(value)
        if cells.ndim > 2:
            raise InputError(f"values have one axis, or two (answers x dimensions); these have shape {cells.shape}")
        wide = cells[:, None] if cells.ndim == 1 else cells
        called = tuple(names) if names is not None else _numbered(wide.shape[1])
        if len(called) != wide.shape[1]:
            raise InputError(f"{len(called)} names for {wide.shape[1]} dimensions of the values; give one each")
        columns = {"item": item, "annotator": annotator} | {_role(k): wide[:, k] for k in range(wide.shape[1])}
        if weight is not None:
            columns["weight"] = weight
        return cls.from_columns(to_polars(columns), Where("the values"), called, items, annotators)

    @classmethod
    def from_matrix(cls, matrix: Any, *, items: Sequence[Any] | None = None, annotators: Sequence[Any] | None = None) -> Self:
        """Build from an items x annotators array of numbers in which absent answers are NaN; ids are positions by default.

        Examples
        --------
        >>> Ratings.from_matrix([[1.5, 2], [float("nan"), 4]])
        Ratings(3 ratings: 2 items, 2 annotators)
        """
        cells = np.asarray(matrix, np.float64)
        if cells.ndim != 2:
            raise InputError(f"a matrix of ratings has two axes, items x annotators; this one has shape {cells.shape}")
        ids = [range(size) if given is None else given for size, given in zip(cells.shape, (items, annotators), strict=True)]
        if (len(ids[0]), len(ids[1])) != cells.shape:
            raise InputError(f"matrix of shape {cells.shape} with {len(ids[0])} item ids and {len(ids[1])} annotator ids")
        n, a = np.nonzero(~np.isnan(cells))
        item, annotator = series_of(list(ids[0]))[n], series_of(list(ids[1]))[a]
        return cls.from_arrays(item, annotator, cells[n, a], items=ids[0], annotators=ids[1])

    @classmethod
    def from_columns(
        cls,
        table: pl.DataFrame,
        where: Where,
        names: tuple[str, ...] = ("value",),
        items: Sequence[Any] | None = None,
        annotators: Sequence[Any] | None = None,
    ) -> Self:
        """Build from columns that are called by their roles; errors name the rows of `where`."""
        columns = [table[_role(k)] if _role(k) in table.columns else table["value"] for k in range(len(names))]
        value, absent = numbers(columns, names, where)
        _warn_of_codes(value[~absent], where)
        item, item_ids = id_codes(table["item"], items, "item", where)
        annotator, annotator_ids = id_codes(table["annotator"], annotators, "annotator", where)
        weight = None if "weight" not in table.columns else checked_weights(table["weight"], where)
        keep = ~absent
        codes = (item[keep], annotator[keep], value[keep], None if weight is None else weight[keep])
        return cls._sorted(*codes, item_ids, annotator_ids, names, int(absent.sum()))

    @classmethod
    def _sorted(
        cls,
        item: NDArray[Any],
        annotator: NDArray[Any],
        value: NDArray[np.float64],
        weight: NDArray[np.float64] | None,
        items: NDArray[Any],
        annotators: NDArray[Any],
        names: tuple[str, ...],
        n_missing: int,
    ) -> Self:
        """Sort by item, annotator, value and weight, so that the order of the rows changes no bit of a fit."""
        order = np.lexsort((*(() if weight is None else (weight,)), *value.T[::-1], annotator, item))
        item_ptr = np.searchsorted(item[order], np.arange(len(items) + 1)).astype(np.int64)
        weight = None if weight is None else weight[order]
        value = np.ascontiguousarray(value[order])
        return cls(item_ptr, annotator[order], value, items, annotators, names, weight, n_missing)

    # -- together, known values, and as a table --------------------------------------------------

    def concat(self, *others: Self) -> Self:
        """Append the answers of others, which must have the same dimensions; vocabularies become sorted unions."""
        parts = (self, *others)
        other = next((part for part in parts if part.names != self.names), None)
        if other is not None:
            raise InputError(f"ratings of {', '.join(self.names)} cannot be joined with those of {', '.join(other.names)}")
        items, item_codes = self._union(parts, "items")
        annotators, annotator_codes = self._union(parts, "annotators")
        item = np.concatenate([codes[part.item] for codes, part in zip(item_codes, parts, strict=True)])
        who = np.concatenate([codes[part.annotator] for codes, part in zip(annotator_codes, parts, strict=True)])
        value, weight = np.concatenate([part.value for part in parts]), self._joined_weights(parts)
        dropped = sum(part.n_missing for part in parts)
        return self._sorted(item, who, value, weight, items, annotators, self.names, dropped)

    def known(self, gold: Any) -> NDArray[np.float64]:
        """Return known values of the items, [N, D], NaN where unknown.

        Parameters
        ----------
        gold : mapping, frame or None
            ``{item: value}`` (D numbers where values have D), or a frame with an item column and the value's columns.
        """
        return known_values(gold, self.items, self.names)

    def to_frame(self) -> pl.DataFrame:
        """One row per answer: item, annotator, the values, and weight where answers have one."""
        ids, who = series_of(self.items), series_of(self.annotators)
        columns = {"item": ids[self.item], "annotator": who[self.annotator]}
        frame = pl.DataFrame(columns | {name: self.value[:, k] for k, name in enumerate(self.names)})
        return frame if self.weight is None else frame.with_columns(weight=self.weight)


def _names(value: Columns) -> tuple[str, ...] | None:
    """The columns of the value, where the user named them."""
    if value is None:
        return None
    names = (value,) if isinstance(value, str) else tuple(value)
    if not names or len(set(names)) < len(names):
        raise InputError(f"name every column of the value once; got {', '.join(names) or 'none'}")
    reserved = [name for name in names if name in ("item", "annotator", "weight")]
    if reserved:
        raise InputError(f"the value cannot be the column {reserved[0]!r}")
    return names


def _warn_of_codes(value: NDArray[np.float64], where: Where) -> None:
    """Warn of numbers such as 99 or -9 that usually mean no answer: they would be averaged."""
    for column in value.T:
        distinct, times = np.unique(column, return_counts=True)
        codes = {code: int(times[distinct == code][0]) for code in missing_codes(distinct.tolist())}
        if codes:
            shown = ", ".join(f"{code:g} ({n:,})" for code, n in codes.items())
            count = "count as values" if len(codes) > 1 else "counts as a value"
            text = f"{where.source}: {shown} {count}; where it means a missing answer, leave the cell empty in the file"
            warnings.warn(text, DataWarning, stacklevel=4)
            return


def _role(k: int) -> str:
    return f"value {k + 1}"


def _numbered(n: int) -> tuple[str, ...]:
    return ("value",) if n == 1 else tuple(f"value_{k + 1}" for k in range(n))


def _value_roles(names: tuple[str, ...] | None) -> dict[str, str | None]:
    return {"value": None} if names is None else {_role(k): name for k, name in enumerate(names)}
