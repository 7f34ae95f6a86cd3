"""Delimited text to columns of text, with the row to blame when a row cannot be read.

Everything is read as text first: a type guessed from the first rows is what makes a late "007"
or "n/a" crash a reader. `crowdwise.data.encode.integers` then turns columns of plain
integers into integers.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator

import polars as pl

from crowdwise.errors import InputError

__all__ = ["parse_delimited", "read_header", "sniff_separator"]

SEPARATORS = (",", "\t", ";", "|")
# Long answers (a page of JSON in a Zooniverse cell) exceed the csv module's default of 128 kB.
csv.field_size_limit(2**30)


def sniff_separator(data: bytes, suffix: str) -> str:
    """Return the separator that the header uses: the suffix's own, unless it yields one column."""
    usual = "\t" if suffix in (".tsv", ".tab") else ","
    header = data[: data.find(b"\n")] if b"\n" in data else data
    line = header.decode("utf-8", "replace")
    counts = {separator: len(next(csv.reader([line], delimiter=separator), [])) for separator in SEPARATORS}
    return usual if counts[usual] > 1 else max(SEPARATORS, key=lambda separator: counts[separator])


def read_header(data: bytes, separator: str, name: str) -> list[str]:
    """Return the column names; refuse names that occur twice, for either could be meant."""
    header: list[str] = next(_rows(data, separator, name), [])
    repeated = sorted({column for column in header if column.strip() and header.count(column) > 1})
    if repeated:
        raise InputError(f"{name} row 1: column {repeated[0]!r} occurs more than once; rename or remove one of them")
    # Nameless columns (a spreadsheet's index or trailing separators) stay reachable by position only.
    return header if "" not in header[1:] else [column or f"column {i + 1}" for i, column in enumerate(header)]


def parse_delimited(data: bytes, separator: str, name: str) -> pl.DataFrame:
    """Return every column as text; empty cells are null; blank lines are rows of nulls.

    All columns are read even when few are needed: with a selection, polars accepts rows that have
    too many fields, and an unquoted comma would silently move values to the neighbouring column.
    """
    header = read_header(data, separator, name)
    try:
        frame = pl.read_csv(io.BytesIO(data), separator=separator, infer_schema=False, new_columns=header)
    except pl.exceptions.PolarsError:
        # Polars does not say where. The csv module does, and it also accepts a quote in mid-field.
        return _parse_slowly(data, separator, name, header)
    if data.count(b'"') % 2:
        return _parse_slowly(data, separator, name, header)
    return frame


def _rows(data: bytes, separator: str, name: str) -> Iterator[list[str]]:
    """Yield records; raise naming the spreadsheet row (the header is row 1) of the first broken one."""
    reader = csv.reader(io.TextIOWrapper(io.BytesIO(data), "utf-8", newline=""), delimiter=separator, strict=True)
    row = 0
    while True:
        row += 1
        try:
            record = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise InputError(
                f"{name} row {row}: cannot be read ({error}); a quote is not closed, or text follows a closing quote. "
                'Write a quote inside a quoted field as ""'
            ) from None
        yield record


def _parse_slowly(data: bytes, separator: str, name: str, header: list[str]) -> pl.DataFrame:
    rows = _rows(data, separator, name)
    next(rows, None)
    cells: list[list[str | None]] = []
    for row, record in enumerate(rows, start=2):
        if len(record) > len(header):
            raise InputError(
                f"{name} row {row}: {len(record)} fields where the header has {len(header)}; "
                f"put quotes around a field that contains {separator!r}"
            )
        cells.append([cell or None for cell in record] + [None] * (len(header) - len(record)))
    return pl.DataFrame(cells, schema=dict.fromkeys(header, pl.String), orient="row")
