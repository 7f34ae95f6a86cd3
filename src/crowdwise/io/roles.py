"""Columns of a table by the part they play, for data that are no class votes: comparisons, values, tokens, groups."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from crowdwise.data.encode import Where, find_column
from crowdwise.errors import InputError
from crowdwise.io.delimited import integers
from crowdwise.io.source import AnyPath, Table, open_source
from crowdwise.io.tables import column_names, read_columns

__all__ = ["read_roles"]


def read_roles(path: AnyPath, roles: Mapping[str, str | None], optional: Mapping[str, str | None] | None = None) -> Table:
    """Read the columns that play these roles, renamed to their roles, and where their rows are.

    Parameters
    ----------
    path : path
        A table: CSV, TSV, JSONL, JSON, Parquet or Arrow; text also with .gz after it.
    roles : mapping
        Role -> the user's name of its column, or None to find it among `crowdwise.data.encode.ALIASES`.
    optional : mapping
        The same, of columns that are read only where the user names them.

    Returns
    -------
    Table
        Of delimited text, columns of plain integers have become integers; all else is text.
    """
    source = open_source(path)
    if source.kind in ("folder", "matrix"):
        raise InputError(f"{source.name}: expected a table with a header and columns {', '.join(roles)}")
    known = pl.DataFrame(schema=dict.fromkeys(column_names(source), pl.String))
    where = Where(source.name)
    asked = {**roles, **{role: name for role, name in (optional or {}).items() if name is not None}}
    wanted = {role: find_column(known, role, given, where) for role, given in asked.items()}
    for role, name in wanted.items():
        other = next(other for other, taken in wanted.items() if taken == name)
        if other != role:
            raise InputError(f"{source.name}: the column {name!r} cannot be both {other} and {role}; name one with --{role}")
    table = read_columns(source, list(wanted.values()))
    return Table(pl.DataFrame({role: integers(table.frame[name]) for role, name in wanted.items()}), table.where)
