"""A file as it is found: its kind, its column names, its rows; read once and checked on the way.

`Source` answers what the recognisers need (column names, first record) before the whole is parsed, and names the file, the row
and the fix when something cannot be read. Delimited text is read as text first: a type guessed from the first rows is what
makes a late "007" or "n/a" crash a reader.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from crowdwise.errors import InputError, did_you_mean, listed
from crowdwise.io.json_text import Record, as_records, is_lines, line_records, list_records, parse_json, record_frame
from crowdwise.io.not_text import NEVER_READ, UTF16_MARKS, check_utf8, refuse_known_binary, refuse_other_text
from crowdwise.io.opening import HOW
from crowdwise.io.places import Places, Table
from crowdwise.io.strict_csv import parse_slowly, refuse_repeated, repeated_header, strict_rows

__all__ = ["KINDS", "Places", "Record", "Source", "Table", "checked_text", "open_source", "parse_delimited", "parse_json"]
__all__ += ["read_header", "read_text_bytes", "refuse_known_binary", "sniff_kind", "sniff_separator"]


KINDS: dict[str, str] = {
    ".csv": "delimited", ".tsv": "delimited", ".tab": "delimited",
    ".jsonl": "jsonl", ".ndjson": "jsonl", ".manifest": "jsonl", ".json": "json",
    ".xml": "xml", ".parquet": "parquet", ".pq": "parquet", ".arrow": "arrow", ".ipc": "arrow", ".feather": "arrow",
}  # fmt: skip
_MATRIX = re.compile(rb"\A[ \t]*-?\d+([ \t]+-?\d+)+[ \t]*\r?(\n|\Z)")


# -- bytes -------------------------------------------------------------------------------------


def read_text_bytes(path: Path, name: str) -> bytes:
    """Return the content, unzipped, as UTF-8 without byte-order mark and with line feeds."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise _unreadable(name, error) from None
    if data.startswith(b"\x1f\x8b"):
        from crowdwise.io.limits import unfolded

        data = unfolded(data, name)
    return checked_text(data, name)


def checked_text(data: bytes, name: str) -> bytes:
    """Return text as UTF-8 without byte-order mark and with line feeds; what is no text is refused."""
    encoding = HOW.get().encoding or ("utf-16" if data.startswith(UTF16_MARKS) else None)
    if encoding is not None:
        from crowdwise.io.archives import decoded

        data = decoded(data, encoding, name)
    if b"\x00" in data:
        refuse_other_text(data, name)
    data = data.removeprefix(b"\xef\xbb\xbf")
    if not data.strip():
        raise InputError(f"{name}: the file is empty; expected a header and rows below it")
    if not data.isascii():
        check_utf8(data, name)
    if b"\r\r\n" in data:
        # Line ends that were converted twice, as Python does on Windows without newline="".
        data = data.replace(b"\r\r\n", b"\r\n")
    # Old Macintosh files end lines with a carriage return alone.
    return data if b"\n" in data or b"\r" not in data.rstrip() else data.replace(b"\r", b"\n")


def sniff_kind(path: Path, content: Callable[[], bytes], name: str, held: bytes | None = None) -> str:
    """Name the kind of a file: by its first bytes where they decide, else by its suffix; `held` was in an archive."""
    head = _head(path, name) if held is None else held[:8]
    if head.startswith(b"PAR1"):
        return "parquet"
    if head.startswith(b"ARROW1"):
        return "arrow"
    suffix = Path(path.name.lower().removesuffix(".gz")).suffix
    kind = KINDS.get(suffix)
    if kind in ("parquet", "arrow"):
        raise InputError(f"{name}: named {suffix} but the content is not {kind}; export it again or correct the suffix")
    start = content().lstrip()[:1]
    if kind in ("json", "jsonl") or (kind is None and start in (b"{", b"[")):
        # Many tools name JSON lines .json and the other way round; the content decides.
        return "jsonl" if start != b"[" and (kind == "jsonl" or is_lines(content())) else "json"
    if kind in ("delimited", "xml"):
        return kind
    if _MATRIX.match(content()):
        return "matrix"
    first_line = content().split(b"\n", 1)[0]
    if any(separator in first_line for separator in (b",", b"\t", b";", b"|")):
        return "delimited"
    from crowdwise.io.blanks import between_blanks

    if between_blanks(content()):
        return "delimited"
    raise InputError(f"{name}: cannot tell what {suffix or 'this file'} holds; known are {', '.join(sorted(KINDS))}; rename it")


def _head(path: Path, name: str) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(8)
    except OSError as error:
        raise _unreadable(name, error) from None


def _unreadable(name: str, error: OSError) -> InputError:
    return InputError(f"{name}: cannot be read ({error.strerror or error}); check that it is a file and that you may read it")


# -- delimited text ----------------------------------------------------------------------------

SEPARATORS = (",", "\t", ";", "|")


def sniff_separator(data: bytes, suffix: str) -> str:
    """Return the separator that the header uses: the suffix's own, unless another yields more columns, there and below."""
    usual = "\t" if suffix in (".tsv", ".tab") else ","
    counts = {}
    for separator in (usual, *SEPARATORS):
        header, below = _first_rows(data, separator)
        # What the usual one would cut in the first cell is not another one's.
        whole = usual not in "".join((*header[:1], *below[:1]))
        fits = len(header) > 1 if separator == usual else len(header) == len(below) > 2 and whole
        counts[separator] = (fits, len(header))
    return max(counts, key=counts.__getitem__)


def _fields(line: bytes, separator: str) -> list[str]:
    """Fields of a line; a carriage return inside it is for the reader of the rows to judge."""
    text = line.decode("utf-8", "replace")
    try:
        return next(csv.reader([text], delimiter=separator), [])
    except csv.Error:
        return text.split(separator)


def _first_rows(data: bytes, separator: str) -> tuple[list[str], list[str]]:
    """The cells of the first two lines."""
    end = data.find(b"\n") % (len(data) + 1)
    second = data[end + 1 : data.find(b"\n", end + 1) % (len(data) + 1)]
    return _fields(data[:end], separator), _fields(second, separator)


def read_header(data: bytes, separator: str, name: str, first: int = 1) -> list[str]:
    """Return the column names, of row `first` of the file; refuse names that occur twice, for either could be meant."""
    line = data[: data.find(b"\n")] if b"\n" in data else data
    plain = line.removesuffix(b"\r")
    if plain and b'"' not in plain and b"\r" not in plain:
        header = plain.decode().split(separator)
    else:
        # Quotes may go around the end of the line.
        header = next(strict_rows(data, separator, name, first), [])
    if not all(map(str.strip, header[1:])):
        # Nameless columns (a spreadsheet's index or trailing separators) stay reachable by position only.
        header = [column if column.strip() else f"column {i + 1}" for i, column in enumerate(header)]
    if len(set(header)) < len(header):
        refuse_repeated(header, name, first)
    return header


def parse_delimited(data: bytes, separator: str, name: str, first: int = 1) -> pl.DataFrame:
    """Return every column as text; empty cells are null; blank lines are rows of nulls.

    All columns are read even when few are needed: with a selection, polars accepts rows that have
    too many fields, and an unquoted comma would silently move values to the neighbouring column.
    """
    header = read_header(data, separator, name, first)
    if b"\r" in data and data.count(b"\r") != data.count(b"\r\n"):
        # Polars takes a carriage return alone for text, others for the end of a row: outside quotes, nobody knows.
        return parse_slowly(data, separator, name, header, first)
    try:
        frame = pl.read_csv(io.BytesIO(data), separator=separator, infer_schema=False, new_columns=header)
    except pl.exceptions.PolarsError:
        # Polars does not say where. The csv module does, and it also accepts a quote in mid-field.
        return parse_slowly(data, separator, name, header, first)
    if data.count(b'"') % 2:
        return parse_slowly(data, separator, name, header, first)
    return frame


# -- sources -----------------------------------------------------------------------------------

AnyPath = str | PathLike[str]
_PACKED, _WORKBOOKS = (b"PK\x03\x04", b"\xd0\xcf\x11\xe0"), (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods")


def open_source(path: AnyPath | Sequence[AnyPath]) -> Source:
    """Return the source at a path; a folder, or several paths, become one source with parts."""
    if not isinstance(path, str | PathLike):
        parts = tuple(open_source(part) for part in path)
        if not parts:
            raise InputError("no file was named; give at least one")
        return Source(parts[0].path.parent, ", ".join(part.name for part in parts), parts)
    name, where = fspath(path), Path(path)
    if where.is_dir():
        found = [[file for file in where.rglob(kind) if file.is_file()] for kind in ("*.json*", "*.xml")]
        files = sorted(file for file in found[0] or found[1] if not file.name.startswith("."))
        return Source(where, name, tuple(Source(file, fspath(file)) for file in files))
    if where.is_file() and (where.suffix.lower() in _WORKBOOKS or _head(where, name).startswith(_PACKED)):
        from crowdwise.io.archives import unpacked

        refuse_known_binary(where, name)
        return Source(*(held := unpacked(where, name, KINDS))[:2], content=held[2])
    if not where.exists():
        beside = [other.name for other in where.parent.iterdir()] if where.parent.is_dir() else []
        # Names that only end alike are not meant.
        raise InputError(f"{name}: no such file{did_you_mean(where.name, beside, 0.8)}")
    return Source(where, name)


@dataclass(eq=False)
class Source:
    """One file, or the JSON files of a folder (`parts`)."""

    path: Path
    name: str
    parts: tuple[Source, ...] | None = None
    content: bytes | None = None
    last_row: int | None = None

    @cached_property
    def kind(self) -> str:
        """One of: folder, delimited, json, jsonl, xml, parquet, arrow, matrix."""
        if self.parts is not None:
            return "folder"
        if self.path.suffix.lower() in NEVER_READ:
            refuse_known_binary(self.path, self.name)
        return sniff_kind(self.path, lambda: self.data, self.name, self.content)

    @cached_property
    def data(self) -> bytes:
        """The text of the file as UTF-8 bytes, unzipped, without a byte-order mark."""
        return read_text_bytes(self.path, self.name) if self.content is None else checked_text(self.content, self.name)

    @cached_property
    def body(self) -> tuple[bytes, str, int]:
        """A delimited file from its header on, its separator, and the row of the header."""
        separator = sniff_separator(self.data, self.path.name.removesuffix(".gz")[-4:].lower())
        above, below = ([cell for cell in row if cell.strip()] for row in _first_rows(self.data, separator))
        # A header has a name for every column; one name alone, or fewer than there are cells below, may be a title.
        if HOW.get().skip_rows is None and 1 < len(above) >= len(below) > 0:
            return self.data, separator, 1
        from crowdwise.io.archives import below_titles
        from crowdwise.io.blanks import between_blanks, with_tabs

        if len(above) == 1 and HOW.get().skip_rows is None and between_blanks(self.data):
            return with_tabs(self.data), "\t", 1
        return below_titles(self.data, separator, self.name)

    @property
    def separator(self) -> str:
        """The separator of a delimited file."""
        return self.body[1]

    @cached_property
    def columns(self) -> list[str]:
        """Column names of a table, or the keys of the first JSON record."""
        if self.kind == "delimited":
            data, separator, first = self.body
            return read_header(data, separator, self.name, first)
        if self.kind in ("parquet", "arrow"):
            from crowdwise.io.binary import read_binary

            return read_binary(self.path, self.kind, [], self.name)[1]
        return list(self.first)

    @cached_property
    def names(self) -> list[str]:
        """Column names of a table, or the keys of all JSON records."""
        if self.kind not in ("json", "jsonl"):
            return self.columns
        if not self.records:
            raise InputError(f"{self.name}: no records; expected one object per vote")
        return list(dict.fromkeys(name for _, record in self.records for name in record))

    @cached_property
    def field_names(self) -> list[str]:
        """Column names, or keys of the first JSON record with those inside as ``outer.inner``."""
        if self.kind in ("folder", "matrix", "xml"):
            return []
        inner = [f"{outer}.{key}" for outer, value in self.first.items() if isinstance(value, dict) for key in value]
        return self.columns + inner

    @cached_property
    def document(self) -> Any:
        """The parsed content of a JSON file."""
        return as_records(parse_json(self.data, self.name))

    @cached_property
    def first(self) -> Record:
        """The first JSON record, or an empty one."""
        if self.kind == "json":
            top = self.document[0] if isinstance(self.document, list) and self.document else self.document
            return top if isinstance(top, dict) else {}
        if self.kind == "jsonl":
            records = line_records(self.data, self.name, limit=1)
            return records[0][1] if records else {}
        return {}

    @cached_property
    def records(self) -> list[tuple[int, Record]]:
        """Every JSON record with its row: the line in JSONL, the position from 1 in a JSON list or a Parquet file."""
        if self.kind in ("parquet", "arrow"):
            return list(enumerate(self.table(self.columns).frame.to_dicts(), start=1))
        if self.kind == "jsonl":
            return line_records(self.data, self.name)
        return list_records(self.document, self.name)

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

    def table(self, columns: Sequence[str], objects: str | None = None) -> Table:
        """Return these columns, or keys of records; `objects` may hold such. Text has no blank lines or repeated headers."""
        if self.kind in ("parquet", "arrow"):
            from crowdwise.io.binary import read_binary

            return Table(read_binary(self.path, self.kind, columns, self.name)[0], Places(self.name, 1))
        if self.kind in ("json", "jsonl"):
            where = Places(self.name, rows=np.array([row for row, _ in self.records], np.int64), unit=self.unit)
            return Table(record_frame(self.records, columns, where, objects), where)
        frame, blank, first = self._parsed
        known = set(frame.columns)
        if (absent := next((name for name in columns if name not in known), None)) is not None:
            raise InputError(f"{self.name}: no column {absent!r}; found {listed(map(repr, frame.columns))}")
        frame = frame.select(columns)
        if not blank.any():
            return Table(frame, Places(self.name, first + 1))
        return Table(frame.filter(~blank), Places(self.name, rows=np.flatnonzero(~blank.to_numpy()) + first + 1))

    @cached_property
    def _parsed(self) -> tuple[pl.DataFrame, pl.Series, int]:
        """All columns of delimited text, which of its rows are left out, and the row of the names."""
        data, separator, first = self.body
        frame = parse_delimited(data, separator, self.name, first)
        if frame.height == 0:
            raise InputError(f"{self.name}: a header and no rows below it")
        blank = frame.select(pl.all_horizontal(pl.all().is_null())).to_series()
        if frame.width > 1 and frame.select((pl.nth(0) == frame.columns[0]).any()).item():
            blank |= repeated_header(frame, self.name)
        return frame, blank, first
