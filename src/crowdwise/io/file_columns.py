"""A file as a source of columns, for answers of every kind but votes for classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from crowdwise.data.columns import ColumnSource, columns_by_role
from crowdwise.data.encode import Where, integers
from crowdwise.errors import InputError
from crowdwise.io.source import AnyPath, open_source

__all__ = ["FileColumns", "read_roles"]


class FileColumns(ColumnSource):
    """The columns of a table in a file: CSV, TSV, JSONL, JSON, Parquet or Arrow; text also with .gz after it.

    Of text, columns of plain integers become integers. Row numbers in messages are those of the file.
    """

    def __init__(self, path: AnyPath) -> None:
        self.source = open_source(path)
        self.name = self.source.name

    def expect(self, roles: Sequence[str]) -> None:
        """Refuse folders and bare matrices."""
        if self.source.kind in ("folder", "matrix"):
            raise InputError(f"{self.name}: expected a table with a header and columns {', '.join(roles)}")

    @property
    def names(self) -> list[str]:
        """Names of all columns, or all keys of the records."""
        return self.source.names

    def fetch(self, names: Sequence[str], lists: Sequence[str] = ()) -> tuple[pl.DataFrame, Where]:
        """Read these columns; lists in cells of columns in `lists` come as JSON text."""
        as_text = lists if self.source.kind in ("json", "jsonl") else ()
        table = self.source.table([name for name in names if name not in as_text])
        columns = {name: integers(table.frame[name]) for name in table.frame.columns}
        if as_text:
            from crowdwise.data.set_columns import set_text

            cells = {name: [set_text(record.get(name)) for _, record in self.source.records] for name in as_text}
            columns |= {name: pl.Series(name, texts, dtype=pl.String) for name, texts in cells.items()}
        return pl.DataFrame({name: columns[name] for name in names}), table.where


def read_roles(path: AnyPath, roles: Mapping[str, str | None], *, fixed: bool = False) -> pl.DataFrame:
    """Read the columns of a table by their roles; see `crowdwise.data.columns.columns_by_role`."""
    return columns_by_role(FileColumns(path), dict(roles), fixed=fixed)[0]
