"""Matrices of items x annotators: wide tables with names, and bare `answers.txt` files."""

from __future__ import annotations

import re

import numpy as np
import polars as pl

from crowdwise.data.encode import ALIASES, INTEGER, integers
from crowdwise.errors import InputError
from crowdwise.io.exports import Export
from crowdwise.io.source import Places, Source

__all__ = ["looks_wide", "read_answers", "read_wide"]

_NUMBERED = re.compile(
    r"(annotator|worker|rater|coder|judge|user|labell?er|expert|person|crowd|[arwcju])[ _.-]?\d+", re.IGNORECASE
)


def looks_wide(source: Source) -> bool:
    """Say whether a delimited file is clearly wide: an item column, then annotators.

    Clearly means that the other columns are numbered annotators, or that at least three of them
    are sparse and share a few labels; no column may play another role of a tidy table.
    """
    if source.kind != "delimited" or len(source.columns) < 3:
        return False
    plain = ["".join(c for c in name.lower() if c.isalnum()) for name in source.columns]
    if any(name in (*ALIASES["annotator"], *ALIASES["label"]) for name in plain):
        return False
    if plain[0] not in ("", "id", "index", *ALIASES["item"]):
        return False
    if all(_NUMBERED.fullmatch(name.strip()) for name in source.columns[1:]):
        return True
    cells = source.table(source.columns).frame[:, 1:]
    absent = sum(int((cells[name].is_null() | (cells[name] == "-1").fill_null(False)).sum()) for name in cells.columns)
    labels = {label for name in cells.columns for label in cells[name].drop_nulls().unique().to_list()}
    return cells.width >= 3 and absent >= 0.2 * cells.height * cells.width and len(labels) <= min(50, max(3, cells.height // 2))


def read_wide(source: Source, item: str | None = None) -> Export:
    """Read a table with a row per item and a column per annotator; empty cells are absent votes.

    Where no cell is empty and the other labels are two or more integers from 0 up, -1 means absent
    (Snorkel, CrowdLayer). Votes of 1 and -1 stay what they are.
    """
    if source.kind not in ("delimited", "parquet", "arrow"):
        raise InputError(f"{source.name}: a wide table is CSV, TSV, Parquet or Arrow, not {source.kind}")
    table = source.table(source.columns)
    item = item or source.columns[0]
    if item not in source.columns:
        raise InputError(f"{source.name}: no column {item!r}; found {', '.join(map(repr, source.columns))}")
    frame = table.frame.with_columns(integers(table.frame[item]))
    repeated = frame[item].is_duplicated()
    if repeated.any():
        row = int(repeated.arg_true()[-1])
        raise InputError(f"{table.where.row(row)}: item {frame[item][row]!r} occurs twice; a wide table has one row per item")
    annotators = [name for name in frame.columns if name != item]
    if not annotators:
        raise InputError(f"{source.name}: one column; a wide table has the item and a column per annotator")
    label = pl.concat([frame[name].cast(pl.String) for name in annotators]).replace("", None)
    if label.null_count() == 0:
        others = label.filter(label != "-1").unique()
        if len(others) > 1 and others.str.contains(INTEGER).all() and not others.str.starts_with("-").any():
            label = label.replace("-1", None)
    present = np.flatnonzero(label.is_not_null().to_numpy())
    # Column after column: vote e stands in row e mod N of annotator e div N.
    a, n = np.divmod(present, frame.height)
    names = integers(pl.Series(annotators))
    votes = pl.DataFrame({"item": frame[item][n], "annotator": names[a], "label": integers(label[present])})
    where = Places(source.name, rows=n + table.where.first_row if table.where.rows is None else table.where.rows[n])
    return Export(votes, where, items=frame[item], annotators=names.sort())


def read_answers(source: Source) -> Export:
    """Read a whitespace matrix of labels with -1 where there is none; ids are positions from 0."""
    lines = [line.split() for line in source.data.decode().splitlines()]
    filled = [(row, cells) for row, cells in enumerate(lines, start=1) if cells]
    width = len(filled[0][1])
    for row, cells in filled:
        if len(cells) != width:
            raise InputError(f"{source.name} row {row}: {len(cells)} numbers where row {filled[0][0]} has {width}")
    flat = pl.Series([cell for _, cells in filled for cell in cells]).cast(pl.Float64, strict=False)
    if flat.null_count():
        bad = int(flat.is_null().arg_true()[0])
        row, cells = filled[bad // width]
        raise InputError(
            f"{source.name} row {row}: {cells[bad % width]!r} is not a number; answers files hold class numbers and -1"
        )
    matrix = flat.to_numpy().reshape(len(filled), width)
    n, a = np.nonzero((matrix != -1) & ~np.isnan(matrix))
    where = Places(source.name, rows=np.array([row for row, _ in filled], np.int64)[n])
    return Export(
        pl.DataFrame({"item": n, "annotator": a, "label": matrix[n, a]}),
        where,
        items=pl.Series(np.arange(len(filled))),
        annotators=pl.Series(np.arange(width)),
    )
