"""When every vote was given: times beside `Annotations`, which have none."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from crowdwise.data.annotations import Annotations
from crowdwise.data.encode import Where, as_text, find_column, series_of, tidy, to_polars
from crowdwise.errors import InputError, did_you_mean
from crowdwise.kernels.types import Floats

__all__ = ["as_numbers", "time_of_votes"]


def time_of_votes(votes: Annotations, time: Any) -> Floats:
    """Time of every vote as a number, [E]; NaN where it is unknown.

    Parameters
    ----------
    time : [E] or frame
        In the order of the votes; or a frame with item, annotator and time and, where an annotator answers
        an item more than once, label. Rows without a vote are ignored; several times of one vote are averaged.
    """
    if not (hasattr(time, "columns") or isinstance(time, dict)):
        values = as_numbers(series_of(time), "time")
        if len(values) != votes.n_votes:
            raise InputError(
                f"{len(values)} times for {votes.n_votes} votes; give one per vote in their order, or a frame with item, "
                "annotator and time"
            )
        return values
    table, where = to_polars(time), Where("the times")
    keys = ["item", "annotator"]
    names = {role: find_column(table, role, None, where) for role in keys}
    if "label" in table.columns:
        keys.append("label")
        names["label"] = "label"
    if "time" not in table.columns:
        raise InputError(f"the times need a column time{did_you_mean('time', table.columns)}; found {', '.join(table.columns)}")
    given = pl.DataFrame({role: as_text(tidy(table[name])) for role, name in names.items()})
    # Not a number and not known are one thing here.
    given = given.with_columns(time=pl.Series(as_numbers(table["time"], "time")).fill_nan(None))
    given = given.group_by(keys).agg(pl.col("time").mean())
    asked = votes.to_frame().select(*(as_text(tidy(votes.to_frame()[key])).alias(key) for key in keys))
    found = asked.with_row_index("row").join(given, on=keys, how="left").sort("row")["time"]
    if found.null_count() == len(found) and len(found):
        raise InputError("none of the times belongs to a vote; check that both use the same item and annotator ids")
    return np.asarray(found.fill_null(np.nan).to_numpy(), float)


def as_numbers(times: pl.Series, what: str) -> Floats:
    """Numbers, dates, datetimes or their usual text as numbers; the unit does not matter, only the order."""
    if times.dtype.is_temporal():
        times = times.to_physical()
    elif times.dtype == pl.String:
        times = _parsed(times, what)
    if not (times.dtype.is_numeric() or times.dtype == pl.Null):
        raise InputError(f"{what}: expected numbers or dates; got {times.dtype}")
    return np.asarray(times.cast(pl.Float64).fill_null(np.nan).to_numpy(), float)


def _parsed(times: pl.Series, what: str) -> pl.Series:
    stripped = times.str.strip_chars().replace("", None)
    numbers = stripped.cast(pl.Float64, strict=False)
    if numbers.null_count() == stripped.null_count():
        return numbers
    for kind in (pl.Datetime("us", "UTC"), pl.Datetime("us"), pl.Date()):
        try:
            parsed = stripped.str.strptime(kind, strict=False)
        except pl.exceptions.PolarsError:
            continue
        if parsed.null_count() == stripped.null_count():
            return parsed.to_physical()
    bad = str(stripped.drop_nulls()[0])
    raise InputError(f"{what}: cannot read times such as {bad!r}; use numbers or dates like 2025-03-01 14:30:00")
