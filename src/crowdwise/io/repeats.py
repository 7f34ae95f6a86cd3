"""Votes that one annotator gave twice on one item: the last, the first, or all of them with the weight of one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

import polars as pl

from crowdwise.data.encode import missing_mask, tidy
from crowdwise.errors import InputError, SettingError
from crowdwise.io.exports import Export, Request
from crowdwise.io.source import Places, Source

__all__ = ["REPEATS", "find_time", "prepared", "times_of", "without_repeats"]

REPEATS = ("all", "last", "first", "weight")
_TIMES = (
    "time", "timestamp", "datetime", "date", "createdat", "submittedat", "submittime", "updatedat", "annotatedat",
    "completedat", "endtime", "end", "finishedat", "assignmentsubmitted", "submitted",
)  # fmt: skip
_ZONE = re.compile(r"\s*\b(?:UTC|GMT|P[SD]T|M[SD]T|C[SD]T|E[SD]T|CEST|CET|BST)\b")
_FORMATS = (
    "%a %b %d %H:%M:%S %Y", "%m/%d/%Y %H:%M:%S", "%d/%m/%Y %H:%M:%S", "%m/%d/%Y %H:%M", "%d/%m/%Y %H:%M", "%m/%d/%Y",
    "%d/%m/%Y", "%d.%m.%Y %H:%M:%S", "%d.%m.%Y %H:%M", "%d.%m.%Y", "%Y/%m/%d %H:%M:%S", "%Y/%m/%d %H:%M", "%Y/%m/%d",
    "%Y/%m/%d %I:%M:%S %p", "%m/%d/%Y %I:%M:%S %p", "%b %d, %Y %H:%M:%S",
)  # fmt: skip


def check_repeats(repeats: str) -> None:
    """Refuse what is no rule for repeated votes."""
    if repeats not in REPEATS:
        raise SettingError(f"repeats must be one of {', '.join(REPEATS)}; got {repeats!r}")


def find_time(names: Sequence[str]) -> str | None:
    """The column that says when a vote was given, by its name; None if there is none, or several."""
    plain = {name: "".join(c for c in name.lower() if c.isalnum()) for name in names}
    for wanted in _TIMES:
        found = [name for name in names if plain[name] == wanted]
        if len(found) == 1:
            return found[0]
    return None


def times_of(column: pl.Series, where: Places) -> pl.Series:
    """Times as numbers that sort; anything that is no time is an error that names its row."""
    if column.dtype.is_temporal():
        return column.cast(pl.Datetime).dt.epoch("us").cast(pl.Float64)
    if column.dtype.is_numeric():
        return column.cast(pl.Float64)
    texts = [None if text is None else _ZONE.sub("", str(text)).strip() for text in column.to_list()]
    for parse in (float, _iso, *(_by(form) for form in _FORMATS)):
        with suppress(ValueError):
            return pl.Series([None if not text else parse(text) for text in texts], dtype=pl.Float64)
    row = next(index for index, text in enumerate(texts) if text)
    raise InputError(
        f"{where.row(row)}: {texts[row]!r} and the others are not all times; name another column with time=... or --time-column"
    )


def _iso(text: str) -> float:
    made = datetime.fromisoformat(text.replace("Z", "+00:00"))
    return (made if made.tzinfo else made.replace(tzinfo=timezone.utc)).timestamp()


def _by(form: str) -> Any:
    return lambda text: datetime.strptime(text, form).replace(tzinfo=timezone.utc).timestamp()


def prepared(export: Export, source: Source, request: Request) -> Export:
    """The votes with the times that decide which of an annotator's votes is the last; says what does."""
    check_repeats(request.repeats)
    if request.repeats == "weight":
        return export
    timed = _with_times(export, source, request.time)
    by = "the times of the file" if "time" in timed.votes.columns else "the order of the file"
    request.notes.append(f"{source.name}: an annotator's {request.repeats} vote on an item counts, by {by} (--time-column)")
    return timed


def _with_times(export: Export, source: Source, name: str | None) -> Export:
    """The votes of a table with the time of each, from the named column or one with a usual name."""
    if source.kind not in ("delimited", "parquet", "arrow") or "time" in export.votes.columns:
        return export
    name = name or find_time(source.columns)
    if name is None:
        return export
    if name not in source.columns:
        raise InputError(f"{source.name}: no column {name!r} of times; found {', '.join(map(repr, source.columns))}")
    table = source.table([name])
    if table.frame.height != export.votes.height:
        return export
    return replace(export, votes=export.votes.with_columns(times_of(table.frame[name], table.where).alias("time")))


def without_repeats(export: Export, repeats: str, missing: Sequence[Any]) -> Export:
    """Keep an annotator's last or first answer to an item, or let all weigh as much as one; missing answers are none."""
    votes = export.votes
    answered = ~missing_mask(tidy(votes["label"]), missing)
    pair = ["item", "annotator"]
    if repeats == "weight":
        rows = votes.with_columns(answered.alias("answered"))
        share = 1.0 / pl.col("answered").sum().over(pair).clip(lower_bound=1)
        weight = share * (pl.col("weight").cast(pl.Float64, strict=False) if "weight" in votes.columns else 1.0)
        return replace(export, votes=rows.with_columns(weight.alias("weight")).drop("answered"))
    order = ["time", "row"] if "time" in votes.columns else ["row"]
    rows = votes.with_columns(answered.alias("answered")).with_row_index("row")
    kept = rows.filter("answered").sort(order, nulls_last=False, maintain_order=True)
    kept = kept.unique(subset=pair, keep="last" if repeats == "last" else "first", maintain_order=True)
    index = pl.concat([kept["row"], rows.filter(~pl.col("answered"))["row"]]).sort()
    where = Places(export.where.source, rows=_rows(export.where, votes.height)[index.to_numpy()], unit=export.where.unit)
    return replace(export, votes=votes[index.to_list()], where=where)


def _rows(where: Places, n: int) -> Any:
    import numpy as np

    return np.arange(n) + where.first_row if where.rows is None else where.rows
