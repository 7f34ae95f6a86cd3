"""Judges that several columns name together, such as model, prompt and temperature; and what their votes cost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import polars as pl

from crowdwise.data.annotations import Annotations
from crowdwise.data.columns import columns_by_role, plays_role
from crowdwise.data.encode import as_text, missing_mask, tidy
from crowdwise.errors import InputError
from crowdwise.io.file_columns import FileColumns
from crowdwise.io.source import AnyPath

__all__ = ["MARK", "prices_in", "read_parts", "read_prices"]

# Between the parts of a judge's name.
MARK = "/"
_PRICES = ("price", "cost", "price_per_example", "price_per_vote", "cost_per_vote")
# Of a file of votes: a price may be that of the item.
_OF_VOTES = _PRICES[2:]


def read_parts(
    path: AnyPath,
    parts: Sequence[str],
    *,
    item: str | None = None,
    label: str | None = None,
    classes: Sequence[Any] | None = None,
    missing: Iterable[Any] = (),
) -> Annotations:
    """Votes of judges that these columns name together: model/prompt/0.7."""
    file = FileColumns(path)
    usual = {name.lower(): name for name in file.names}
    table, where = columns_by_role(file, {"item": item or (usual.get("id") if "item" not in usual else None), "label": label})
    names, _ = columns_by_role(file, {}, {part: part for part in parts})
    texts = [as_text(tidy(names[part])).fill_null("") for part in names.columns]
    frame = table.with_columns(annotator=pl.select(pl.concat_str(texts, separator=MARK)).to_series())
    return Annotations.from_frame(frame, classes=classes, missing=missing, where=where)


def read_prices(path: AnyPath) -> dict[str, float]:
    """Prices of one vote: annotator, or family, -> price, from a table with the columns annotator and price."""
    file = FileColumns(path)
    name = next((name for name in file.names if name.lower() in _PRICES), None)
    if name is None:
        raise InputError(
            f"{file.name}: no column of prices; expected annotator and price, found {', '.join(map(repr, file.names))}"
        )
    return _by_judge(file, None, name)


def prices_in(path: AnyPath, annotator: str | None = None) -> Mapping[str, float]:
    """The mean price of every annotator's votes, where the file of the votes has a column of them; else nothing."""
    file = FileColumns(path)
    if file.source.kind in ("folder", "matrix"):
        return {}
    name = next((name for name in file.names if name.lower() in _OF_VOTES), None)
    found = annotator is not None or plays_role(file.names, "annotator")
    return _by_judge(file, annotator, name) if name is not None and found else {}


def _by_judge(file: FileColumns, annotator: str | None, price: str) -> dict[str, float]:
    """The mean of a column of prices by annotator."""
    who, where = columns_by_role(file, {"annotator": annotator})
    cells = file.fetch([price])[0][price]
    value = cells.cast(pl.Float64, strict=False)
    wrong = (value.is_null() & cells.is_not_null() & ~missing_mask(tidy(cells), ())) | (value < 0).fill_null(False)
    if wrong.any():
        row = int(wrong.arg_true()[0])
        raise InputError(f"{where.row(row)}: {cells[row]!r} is no price; expected a number, 0 or more")
    frame = pl.DataFrame({"who": as_text(tidy(who["annotator"])), "price": value}).drop_nulls()
    means = frame.group_by("who", maintain_order=True).mean()
    return dict(zip(means["who"].to_list(), means["price"].to_list(), strict=True))
