"""Numbers that annotators gave to items: ratings, durations, boxes, time spans.

The counterpart of `Annotations`: an immutable list of values as they were given, sorted by item, with the vocabularies of items
and annotators.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from crowdwise.data.coding import checked_weights, id_codes
from crowdwise.data.encode import Where, as_text, codes_of, find_column, series_of, tidy, to_polars
from crowdwise.data.frozen import Answers
from crowdwise.data.storable import pointers, storable, within
from crowdwise.errors import DataWarning, InputError

if TYPE_CHECKING:
    from os import PathLike

    from typing_extensions import Self

__all__ = ["Ratings", "read_known"]

Columns = str | Sequence[str] | None


@storable
@dataclass(frozen=True, eq=False, repr=False)
class Ratings(Answers):
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

    def sound(self) -> bool:
        """Whether the arrays of saved answers agree with each other."""
        return (
            pointers(self.item_ptr, self.n_items, self.n_votes)
            and within(self.annotator, 0, self.n_annotators)
            and self.value.shape == (self.n_votes, self.n_dimensions)
            and (self.weight is None or self.weight.shape == (self.n_votes,))
        )

    @property
    def n_votes(self) -> int:
        """Number of answers, E."""
        return len(self.annotator)

    @property
    def n_dimensions(self) -> int:
        """Numbers in one answer, D."""
        return len(self.names)

    @cached_property
    def item(self) -> NDArray[np.int64]:
        """Item of every answer, [E]."""
        return np.repeat(np.arange(self.n_items), np.diff(self.item_ptr))

    @cached_property
    def weights(self) -> NDArray[np.float64]:
        """Weight of every answer, [E]: ones where none were given."""
        return np.ones(self.n_votes) if self.weight is None else self.weight

    @cached_property
    def votes_per_item(self) -> NDArray[np.int64]:
        """Answers on every item, [N]."""
        return np.diff(self.item_ptr)

    @cached_property
    def votes_per_annotator(self) -> NDArray[np.int64]:
        """Answers of every annotator, [A]."""
        return np.bincount(self.annotator, minlength=self.n_annotators)

    def __len__(self) -> int:
        return self.n_votes

    def __getitem__(self, positions: Any) -> Self:
        """Return the answers at these positions (an index array, mask or slice); vocabularies stay."""
        keep = np.sort(np.atleast_1d(np.arange(self.n_votes)[positions]))
        return replace(
            self,
            item_ptr=np.searchsorted(self.item[keep], np.arange(self.n_items + 1)).astype(np.int64),
            annotator=self.annotator[keep],
            value=self.value[keep],
            weight=None if self.weight is None else self.weight[keep],
        )

    def __repr__(self) -> str:
        dropped = f"; {self.n_missing} missing dropped" if self.n_missing else ""
        of = "" if self.n_dimensions == 1 else f" of {', '.join(self.names)}"
        return f"Ratings({self.n_votes} ratings{of}: {self.n_items} items, {self.n_annotators} annotators{dropped})"

    # -- constructors --------------------------------------------------------------------------

    @classmethod
    def read(
        cls,
        path: str | PathLike[str],
        *,
        item: str | None = None,
        annotator: str | None = None,
        value: Columns = None,
        weight: str | None = None,
        items: Sequence[Any] | None = None,
    ) -> Self:
        """Read a table (CSV, TSV, JSONL, Parquet, Arrow; gzip'd too) with one row per answer.

        Columns not named are found among the usual names (item, annotator, value, score, rating, ...). `value` may name
        several columns, such as ``["x1", "y1", "x2", "y2"]``.
        """
        from crowdwise.io.roles import read_roles

        names = _names(value)
        roles = {"item": item, "annotator": annotator} | _value_roles(names)
        table = read_roles(path, roles, {"weight": weight})
        return cls.from_columns(table.frame, names or ("value",), table.where, items)

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
    ) -> Self:
        """Build from a long pandas, polars or Arrow frame with one row per answer; see `read`."""
        where, table, names = Where("the frame"), to_polars(frame), _names(value)
        roles = {"item": item, "annotator": annotator} | _value_roles(names)
        if weight is not None:
            roles["weight"] = weight
        found = {role: find_column(table, role, given, where) for role, given in roles.items()}
        columns = pl.DataFrame({role: table[name] for role, name in found.items()})
        return cls.from_columns(columns, names or ("value",), where, items)

    @classmethod
    def from_arrays(
        cls,
        item: Any,
        annotator: Any,
        value: Any,
        *,
        weight: Any = None,
        items: Sequence[Any] | None = None,
        names: Sequence[str] | None = None,
    ) -> Self:
        """Build from columns of equal length; `value` has a number per row, or D of them, [E, D]."""
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
        return cls.from_columns(to_polars(columns), called, Where("the values"), items)

    @classmethod
    def from_columns(cls, table: pl.DataFrame, names: tuple[str, ...], where: Where, items: Sequence[Any] | None) -> Self:
        columns = [table[_role(k)] if _role(k) in table.columns else table["value"] for k in range(len(names))]
        value, absent = _numbers(columns, names, where)
        item, item_ids = id_codes(table["item"], items, "item", where)
        annotator, annotator_ids = id_codes(table["annotator"], None, "annotator", where)
        weight = None if "weight" not in table.columns else checked_weights(table["weight"], where)
        keep = np.flatnonzero(~absent)
        # Sorted by value as well, so that the order of the rows changes no bit of a fit.
        order = keep[np.lexsort((*value[keep].T[::-1], annotator[keep], item[keep]))]
        return cls(
            np.searchsorted(item[order], np.arange(len(item_ids) + 1)).astype(np.int64),
            annotator[order],
            np.ascontiguousarray(value[order]),
            item_ids,
            annotator_ids,
            names,
            None if weight is None else weight[order],
            int(absent.sum()),
        )

    # -- known values, and as a table ------------------------------------------------------------

    def known(self, gold: Any) -> NDArray[np.float64]:
        """Return known values of the items, [N, D], NaN where unknown.

        Parameters
        ----------
        gold : mapping, frame or None
            ``{item: value}`` (D numbers where values have D), or a frame with an item column and the value's columns.
        """
        found = np.full((self.n_items, self.n_dimensions), np.nan)
        if gold is None:
            return found
        if isinstance(gold, Mapping) and not {"item", *self.names} <= set(gold):
            ids, columns = series_of(list(gold)), _transposed(list(gold.values()), self.n_dimensions)
        else:
            frame, where = to_polars(gold), Where("gold")
            ids = frame[find_column(frame, "item", None, where)]
            several = self.n_dimensions > 1
            wanted = list(self.names) if several else [_truth_column(frame, self.names[0], where)]
            columns = [frame[find_column(frame, "truth", name, where)] for name in wanted]
        value, absent = _numbers(columns, self.names, Where("gold"))
        position = codes_of(tidy(ids), tidy(series_of(self.items)))
        strangers = int(((position < 0) & ~absent).sum())
        if strangers:
            warnings.warn(f"{strangers} gold values are of items without values and were ignored", DataWarning, stacklevel=3)
        use = np.flatnonzero((position >= 0) & ~absent)
        found[position[use]] = value[use]
        conflict = use[(found[position[use]] != value[use]).any(axis=1)]
        if len(conflict):
            raise InputError(f"gold gives item {ids[int(conflict[0])]!r} two different values")
        return found

    def to_frame(self) -> pl.DataFrame:
        """One row per answer: item, annotator, the values, and weight where answers have one."""
        ids, people = series_of(self.items), series_of(self.annotators)
        columns = {"item": ids[self.item], "annotator": people[self.annotator]}
        frame = pl.DataFrame(columns | {name: self.value[:, k] for k, name in enumerate(self.names)})
        return frame if self.weight is None else frame.with_columns(weight=self.weight)


def read_known(path: str | PathLike[str], values: Ratings) -> pl.DataFrame:
    """Read known values of some items from a table, for `Ratings.known`."""
    from crowdwise.io.source import open_source
    from crowdwise.io.tables import column_names, read_columns

    source = open_source(path)
    names, where = column_names(source), Where(source.name)
    known = pl.DataFrame(schema=dict.fromkeys(names, pl.String))
    item = find_column(known, "item", None, where)
    several = values.n_dimensions > 1
    columns = list(values.names) if several else [_truth_column(known, values.names[0], where)]
    columns = [find_column(known, "truth", name, where) for name in columns]
    table = read_columns(source, [item, *columns])
    value, absent = _numbers([table.frame[name] for name in columns], values.names, table.where)
    frame = pl.DataFrame({"item": table.frame[item]} | {name: value[:, k] for k, name in enumerate(values.names)})
    return frame.filter(pl.Series(~absent) & frame["item"].is_not_null())


def _truth_column(frame: pl.DataFrame, name: str, where: Where) -> str:
    return name if name in frame.columns else find_column(frame, "truth", None, where)


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


def _role(k: int) -> str:
    return f"value {k + 1}"


def _numbered(n: int) -> tuple[str, ...]:
    return ("value",) if n == 1 else tuple(f"value_{k + 1}" for k in range(n))


def _value_roles(names: tuple[str, ...] | None) -> dict[str, str | None]:
    return {"value": None} if names is None else {_role(k): name for k, name in enumerate(names)}


def _transposed(rows: list[Any], n: int) -> list[pl.Series]:
    """Columns of values that come one row per item."""
    cells = [list(row) if isinstance(row, list | tuple | np.ndarray) else [row] for row in rows]
    wrong = next((row for row in cells if len(row) != n), None)
    if wrong is not None:
        raise InputError(f"a gold value has {len(wrong)} numbers, and values here have {n}")
    return [series_of([row[k] for row in cells]) for k in range(n)]


def _numbers(columns: Sequence[pl.Series], names: Sequence[str], where: Where) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Columns as floats, [E, D], and which rows lack a value; what is no finite number is an error that names its row."""
    values, missing = [], []
    for name, column in zip(names, columns, strict=True):
        text = as_text(column) if column.dtype == pl.String or not column.dtype.is_numeric() else None
        if text is None:
            # NaN in a column of numbers is how frames say that there is none.
            number = column.cast(pl.Float64).fill_nan(None)
            absent = number.is_null()
        else:
            text = text.str.strip_chars()
            number, absent = text.cast(pl.Float64, strict=False), text.is_null() | text.eq("").fill_null(True)
        found = np.array(number.fill_null(np.nan).to_numpy(), np.float64)
        bad = np.flatnonzero(~np.isfinite(found) & ~absent.to_numpy())
        if len(bad):
            row = int(bad[0])
            raise InputError(
                f"{where.row(row)}: the {name} {str(column[row])!r} is no finite number;"
                " correct it, or leave the cell empty where there is no answer"
            )
        values.append(found)
        missing.append(absent.to_numpy())
    n = len(columns[0])
    return np.stack(values, axis=1).reshape(n, len(columns)), np.any(missing, axis=0).reshape(n)
