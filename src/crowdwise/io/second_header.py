"""Rows below the header that describe the columns, as survey tools and spreadsheets have them: they would vote."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from crowdwise.errors import InputError, listed
from crowdwise.io.exports import Request
from crowdwise.io.source import Places, Table

__all__ = ["below_second_header", "refuse_second_header"]

# Of so many columns with answers that recur, the first row has an answer to none.
_LEAST_COLUMNS = 3
_LEAST_ROWS = 4
# Rows and columns that are looked at.
_MOST = 1_000


def below_second_header(table: Table, request: Request) -> Table:
    """The table, of a row per person, without rows below the header that describe the columns.

    Qualtrics writes the questions, and where each was imported from; SurveyMonkey what kind of answer a column holds. What they
    say occurs in no other row.
    """
    for row, cells in enumerate(table.frame.head(2).rows()):
        if any(isinstance(cell, str) and cell.startswith('{"ImportId"') for cell in cells):
            return _without(table, row + 1, ", as Qualtrics writes them", request)
    strange = _strange(table.frame)
    return _without(table, 1, f" ({listed(map(repr, strange), 3)})", request) if strange else table


def refuse_second_header(table: Table, ids: str, chosen: Sequence[str]) -> None:
    """Refuse a table with a column per annotator whose first row describes the columns: it is no item.

    What names it is a text, or empty, where all other rows have numbers, and no other row says what it says.
    """
    frame = table.frame.head(_MOST)
    names, said = frame[ids].cast(pl.String), frame.select(pl.col(chosen).cast(pl.String))
    if frame.height <= _LEAST_ROWS or not names[1:].str.contains(r"^\d+$").all() or (names[0] or "").isdigit():
        return
    first = [cell for cell in said.row(0) if cell is not None]
    known = set(said[1:].unpivot()["value"].drop_nulls().to_list())
    if len(first) > 1 and known and known.isdisjoint(first):
        shown = listed(map(repr, dict.fromkeys(first)), 3)
        raise InputError(
            f"{table.where.row(0)}: {shown} describe the columns, as a second header does, "
            "and no other row says so; keep one row of names, with one for every column"
        )


def _strange(frame: pl.DataFrame) -> list[str]:
    """What the first row says in columns whose other answers recur, if no other row says any of it."""
    frame = frame.head(_MOST).select(frame.columns[:_MOST])
    rest = frame[1:]
    if rest.height < _LEAST_ROWS:
        return []
    first, said = frame.row(0, named=True), []
    for name in frame.columns:
        answers = set() if frame[name].dtype.is_nested() else set(rest[name].cast(pl.String).drop_nulls())
        if answers and 2 * len(answers) <= rest.height and first[name] is not None:
            if str(first[name]) in answers:
                return []
            said.append(str(first[name]))
    return said if len(said) >= _LEAST_COLUMNS else []


def _without(table: Table, n: int, what: str, request: Request) -> Table:
    """The table without its first rows, which is said."""
    request.notes.append(
        f"{table.where.source}: {n} row{'s' if n > 1 else ''} below the header that describe{'' if n > 1 else 's'} the "
        f"columns{what}, left out"
    )
    where = table.where
    rows = np.arange(n, table.frame.height) + where.first_row if where.rows is None else where.rows[n:]
    return Table(table.frame[n:], Places(where.source, rows=rows, unit=where.unit))
