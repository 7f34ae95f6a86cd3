"""Delimited text by the csv module: slower than polars, it names the row that is broken, and takes a quote in mid-field."""

from __future__ import annotations

import csv
import io
import warnings
from collections import Counter
from collections.abc import Iterator

import polars as pl

from crowdwise.errors import DataWarning, InputError

__all__ = ["parse_slowly", "refuse_repeated", "repeated_header", "strict_rows"]

# Long answers (a page of JSON in a Zooniverse cell) exceed the csv module's default of 128 kB.
csv.field_size_limit(2**30)


def strict_rows(data: bytes, separator: str, name: str, first: int) -> Iterator[list[str]]:
    """Yield records; raise naming the spreadsheet row (the header is row `first`) of the first broken one."""
    # Not newline="": that would also end lines at a carriage return alone, and cut a row in two without a word.
    reader = csv.reader(io.TextIOWrapper(io.BytesIO(data), "utf-8", newline="\n"), delimiter=separator, strict=True)
    row = first - 1
    while True:
        row += 1
        try:
            record = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            if "new-line character" in str(error):
                raise InputError(
                    f"{name} row {row}: a carriage return alone, which may be text or the end of a row; save the file with one "
                    "kind of line ends, and with quotes around text that holds one"
                ) from None
            raise InputError(
                f"{name} row {row}: cannot be read ({error}); a quote is not closed, or text follows a closing quote. "
                'Write a quote inside a quoted field as ""'
            ) from None
        yield record


def parse_slowly(data: bytes, separator: str, name: str, header: list[str], first: int) -> pl.DataFrame:
    """Return every column as text, as `source.parse_delimited` does; a row with too many fields is an error."""
    rows = strict_rows(data, separator, name, first)
    next(rows, None)
    cells: list[list[str | None]] = []
    for row, record in enumerate(rows, start=first + 1):
        if len(record) > len(header):
            if row == first + 1 and len(record) == len(header) + 1 and record[0] == "1":
                raise InputError(
                    f"{name}: row numbers in front of the columns have no name in the header, as R writes them; write the file "
                    "with row.names = FALSE, or put a name for them before the header"
                )
            raise InputError(
                f"{name} row {row}: {len(record)} fields where the header has {len(header)}; "
                f"put quotes around a field that contains {separator!r}, or name the rows above the header with --skip-rows"
            )
        cells.append([cell or None for cell in record] + [None] * (len(header) - len(record)))
    return pl.DataFrame(cells, schema=dict.fromkeys(header, pl.String), orient="row")


def refuse_repeated(header: list[str], name: str, first: int) -> None:
    """Refuse names of columns that occur twice, for either could be meant."""
    repeated = sorted(column for column, times in Counter(header).items() if times > 1)
    if repeated:
        raise InputError(
            f"{name} row {first}: column {repeated[0]!r:.100} occurs more than once; rename or remove one of them; if there is "
            "no row of names, add --no-header (header=False)"
        )


def repeated_header(frame: pl.DataFrame, name: str) -> pl.Series:
    """Which rows are the names of the columns again, as in files put together by hand; they are counted in a warning."""
    same = frame.select(pl.all_horizontal(pl.col(column).eq_missing(pl.lit(column)) for column in frame.columns)).to_series()
    if same.any():
        n = int(same.sum())
        rows = "a row that repeats the header is" if n == 1 else f"{n:,} rows that repeat the header are"
        warnings.warn(f"{name}: {rows} left out", DataWarning, stacklevel=2)
    return same
