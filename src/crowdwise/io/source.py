"""A file as it is found: its kind, its column names, its rows; read once and checked on the way.

`Source` answers what the recognisers need (column names, first record) before the whole is
parsed, and names the file, the row and the fix when something cannot be read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from crowdwise.data.encode import Where
from crowdwise.errors import InputError, did_you_mean
from crowdwise.io.content import read_text_bytes, refuse_known_binary, sniff_kind
from crowdwise.io.delimited import parse_delimited, read_header, sniff_separator

if TYPE_CHECKING:
    from crowdwise.kernels.types import Integers

__all__ = ["Places", "Record", "Source", "Table", "open_source", "parse_json"]

AnyPath = str | PathLike[str]
Record = dict[str, Any]


@dataclass(frozen=True)
class Places(Where):
    """Where rows come from when they are not consecutive: the number of each, and what it counts."""

    rows: Integers | None = None
    unit: str = "row"

    def row(self, index: int) -> str:
        """Return, for example, "votes.csv row 17"."""
        number = index + self.first_row if self.rows is None else int(self.rows[index])
        return f"{self.source} {self.unit} {number}"


@dataclass(frozen=True)
class Table:
    """Columns with the places of their rows."""

    frame: pl.DataFrame
    where: Places


def open_source(path: AnyPath | Sequence[AnyPath]) -> Source:
    """Return the source at a path; a folder, or several paths, become one source with parts."""
    if not isinstance(path, str | PathLike):
        parts = tuple(open_source(part) for part in path)
        if not parts:
            raise InputError("no file was named; give at least one")
        return Source(parts[0].path.parent, ", ".join(part.name for part in parts), parts)
    name, where = fspath(path), Path(path)
    if where.is_dir():
        files = sorted(file for file in where.rglob("*.json*") if file.is_file() and not file.name.startswith("."))
        return Source(where, name, tuple(Source(file, fspath(file)) for file in files))
    if not where.exists():
        beside = [other.name for other in where.parent.iterdir()] if where.parent.is_dir() else []
        raise InputError(f"{name}: no such file{did_you_mean(where.name, beside)}")
    return Source(where, name)


@dataclass(eq=False)
class Source:
    """One file, or the JSON files of a folder (`parts`)."""

    path: Path
    name: str
    parts: tuple[Source, ...] | None = None
    last_row: int | None = None

    @cached_property
    def kind(self) -> str:
        """One of: folder, delimited, json, jsonl, parquet, arrow, matrix."""
        if self.parts is not None:
            return "folder"
        refuse_known_binary(self.path, self.name)
        return sniff_kind(self.path, lambda: self.data, self.name)

    @cached_property
    def data(self) -> bytes:
        """The text of the file as UTF-8 bytes, unzipped, without a byte-order mark."""
        return read_text_bytes(self.path, self.name)

    @cached_property
    def separator(self) -> str:
        """The separator of a delimited file."""
        return sniff_separator(self.data, self.path.name.removesuffix(".gz")[-4:].lower())

    @cached_property
    def columns(self) -> list[str]:
        """Column names of a table, or the keys of the first JSON record."""
        if self.kind == "delimited":
            return read_header(self.data, self.separator, self.name)
        if self.kind in ("parquet", "arrow"):
            return self._read_binary([])[1]
        return list(self.first)

    @cached_property
    def field_names(self) -> list[str]:
        """Column names, or keys of the first JSON record with those inside as ``outer.inner``."""
        if self.kind in ("folder", "matrix"):
            return []
        inner = [f"{outer}.{key}" for outer, value in self.first.items() if isinstance(value, dict) for key in value]
        return self.columns + inner

    @cached_property
    def document(self) -> Any:
        """The parsed content of a JSON file."""
        return parse_json(self.data, self.name)

    @cached_property
    def first(self) -> Record:
        """The first JSON record, or an empty one."""
        if self.kind == "json":
            top = self.document[0] if isinstance(self.document, list) and self.document else self.document
            return top if isinstance(top, dict) else {}
        if self.kind == "jsonl":
            records = self._lines(limit=1)
            return records[0][1] if records else {}
        return {}

    @cached_property
    def records(self) -> list[tuple[int, Record]]:
        """Every JSON record with its row: the line in JSONL, the position from 1 in a JSON list."""
        if self.kind == "jsonl":
            return self._lines()
        entries = self.document if isinstance(self.document, list) else [self.document]
        for row, entry in enumerate(entries, start=1):
            if not isinstance(entry, dict):
                raise InputError(f"{self.name} record {row}: expected an object {{...}}, got {type(entry).__name__}")
        return list(enumerate(entries, start=1))

    def walk(self) -> Iterator[tuple[int, Record]]:
        """Yield the records and remember the row, so that one of an unexpected shape can be named."""
        for row, record in self.records:
            self.last_row = row
            yield row, record

    @property
    def last_place(self) -> str:
        """The file and the record that `walk` gave last."""
        part = next((part for part in reversed(self.parts or ()) if part.last_row is not None), self)
        return part.name if part.last_row is None else f"{part.name} {part.unit} {part.last_row}"

    @property
    def unit(self) -> str:
        """What row numbers count in messages."""
        return "record" if self.kind == "json" else "row"

    def table(self, columns: Sequence[str]) -> Table:
        """Return these columns of a tabular file; delimited text stays text, blank lines are left out."""
        if self.kind in ("parquet", "arrow"):
            return Table(self._read_binary(columns)[0], Places(self.name, 1))
        frame = parse_delimited(self.data, self.separator, self.name)
        if frame.height == 0:
            raise InputError(f"{self.name}: a header and no rows below it")
        blank = frame.select(pl.all_horizontal(pl.all().is_null())).to_series()
        frame = frame.select(columns)
        if not blank.any():
            return Table(frame, Places(self.name, 2))
        return Table(frame.filter(~blank), Places(self.name, rows=np.flatnonzero(~blank.to_numpy()) + 2))

    def _lines(self, limit: int | None = None) -> list[tuple[int, Record]]:
        records: list[tuple[int, Record]] = []
        for row, line in enumerate(self.data.split(b"\n"), start=1):
            if not line.strip():
                continue
            record = parse_json(line, f"{self.name} row {row}")
            if not isinstance(record, dict):
                raise InputError(f"{self.name} row {row}: expected an object {{...}} per line, got {type(record).__name__}")
            records.append((row, record))
            if limit is not None and len(records) >= limit:
                break
        return records

    def _read_binary(self, columns: Sequence[str]) -> tuple[pl.DataFrame, list[str]]:
        """Read the named columns of Parquet or Arrow, and list all names."""
        scan = pl.scan_parquet if self.kind == "parquet" else pl.scan_ipc
        try:
            lazy = scan(self.path)
            names = lazy.collect_schema().names()
            return (lazy.select(columns).collect() if columns else pl.DataFrame()), names
        except (pl.exceptions.PolarsError, OSError) as error:
            raise InputError(
                f"{self.name}: not a readable {self.kind} file ({str(error).splitlines()[0]}); export it again"
            ) from None


def parse_json(text: bytes | str, place: str) -> Any:
    """Parse JSON; the error names the place, the line inside it and what is wrong there."""
    try:
        return json.loads(text)
    except RecursionError:
        raise InputError(f"{place}: nested too deeply to be an export of votes") from None
    except json.JSONDecodeError as error:
        line = f" line {error.lineno}" if error.lineno > 1 else ""
        raise InputError(f"{place}{line}: broken JSON at column {error.colno} ({error.msg}); correct or remove it") from None
    except ValueError as error:
        raise InputError(f"{place}: broken JSON ({error}); correct or remove it") from None
