"""Rows below the header of a form's answers that describe its columns, as survey tools write them: they would vote."""

from __future__ import annotations

import numpy as np
import polars as pl

from crowdwise.errors import listed
from crowdwise.io.exports import Request
from crowdwise.io.source import Places, Table

__all__ = ["below_second_header"]

# Of so many columns with answers that recur, the first row has an answer to none.
_LEAST_COLUMNS = 3
_LEAST_ROWS = 4


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


def _strange(frame: pl.DataFrame) -> list[str]:
    """What the first row says in columns whose other answers recur, if no other row says any of it."""
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
