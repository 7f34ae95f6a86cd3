"""Read which items depend on each other from a table, with a row of column names or without one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import polars as pl

from crowdwise.data.edges import Edges, is_named
from crowdwise.data.encode import Where, as_text, series_of, tidy
from crowdwise.io.file_columns import FileColumns
from crowdwise.io.source import AnyPath
from crowdwise.kernels.types import Array

__all__ = ["read_edges"]

ItemsNamed = Callable[[set[str]], set[str]]
_ROLES = ("source", "target", "weight")


def read_edges(path: AnyPath, items: Sequence[Any] | Array | ItemsNamed, notes: list[str] | None = None) -> Edges:
    """Read edges from a table with two columns of item ids and perhaps one of weights, or from lines of numbers.

    Parameters
    ----------
    items : sequence or function
        Ids of the items, or what says which of some names are such ids. Where the names of the first two columns are, and none
        is a usual name, the file has no row of names: its first row is an edge like the others.
    notes : list, optional
        Gets a line where that is so.
    """
    source = FileColumns(path)
    if source.source.kind == "matrix":
        # A list of edges as libraries of graphs write it: two numbers and perhaps a weight in a line, with blanks between.
        return Edges.of([tuple(line.split()) for line in source.source.data.decode().splitlines() if line.strip()])
    source.expect(_ROLES[:2])
    names = source.names
    if source.source.kind != "delimited" or is_named(names) or len(names) not in (2, 3):
        return Edges.of(source)
    ends = {name.strip() for name in names[:2]}
    found = items(ends) if callable(items) else ends & set(as_text(tidy(series_of(items))).to_list())
    if len(found) < len(ends):
        return Edges.of(source)
    if notes is not None:
        notes.append(f"{source.name}: the first row joins two items, so it is read as an edge, not as names of columns")
    return Edges.of(_Headless(source))


class _Headless(FileColumns):
    """Two ends and perhaps a weight, in this order, below no row of names."""

    def __init__(self, read: FileColumns) -> None:
        from crowdwise.io.headless import Headless

        self.source = Headless(read.source.path, read.source.name, read.source.parts)
        self.name = read.name

    @property
    def names(self) -> list[str]:
        """What the columns hold."""
        return list(_ROLES[: len(self.source.columns)])

    def fetch(self, names: Sequence[str], lists: Sequence[str] = ()) -> tuple[pl.DataFrame, Where]:
        """Read these columns."""
        own = dict(zip(self.names, self.source.columns, strict=True))
        table, where = super().fetch([own[name] for name in names], lists)
        return table.rename({own[name]: name for name in names}), where
