"""Delimited text in blocks that end at the end of a record, so that a file larger than memory can be parsed.

A block is parsed together with the header by `crowdwise.io.source`, which also names the row of
a broken record; rows of later blocks are counted on from those before.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import numpy as np
import polars as pl

from crowdwise.errors import InputError
from crowdwise.io.not_text import check_utf8, refuse_other_text
from crowdwise.io.source import Places, Table, parse_delimited, read_header, sniff_separator

__all__ = ["columns_of_text", "start_of", "tables_of_text", "typical_rows"]

BLOCK = 2**26
# One record, or all that an unclosed quote has swallowed.
LONGEST = 2**29
_START = 2**16


def start_of(path: str, size: int = _START) -> bytes:
    """Return the first bytes of a text file, unzipped, cut behind a line where there are several."""
    with _opened(path) as file:
        data = _read(file, size, path)
    refuse_other_text(data, path)
    data = data.removeprefix(b"\xef\xbb\xbf")
    if b"\n" not in data:
        data = data.replace(b"\r", b"\n")
    return data if len(data) < size - 3 or b"\n" not in data else data[: data.rfind(b"\n") + 1]


def columns_of_text(path: str) -> list[str]:
    """Return the column names of a delimited file."""
    size = _START
    data = start_of(path, size)
    while _header_end(data) == len(data) and size < 2**24:
        # The header is longer than what was read, or the whole file.
        size *= 16
        data = start_of(path, size)
    if not data.strip():
        raise InputError(f"{path}: the file is empty; expected a header and rows below it")
    return read_header(data[: _header_end(data)], _separator(data, path), path)


def typical_rows(path: str, size: int) -> int:
    """Estimate the rows of a delimited file of `size` bytes from its first lines; exact for a short plain file."""
    with _opened(path) as file:
        data = _read(file, 2**18, path)
        zipped = isinstance(file, gzip.GzipFile)
    ratio = 1.0
    if zipped:
        # Votes compress evenly, so the ratio of the beginning will do.
        ratio = len(data) / max(min(len(zlib.compress(data, 6)), size), 1)
    lines = max(data.count(b"\n"), 1)
    if len(data) < 2**18:
        return max(lines - data.endswith(b"\n"), 1)
    return max(round(size * ratio / (len(data) / lines)), 1)


def tables_of_text(path: str, names: list[str], block: int | None = None) -> Iterator[Table]:
    """Yield these columns, as text, of about 64 MB of the file at a time; blank lines are left out."""
    header, separator, before = b"", "", 0
    for data in _blocks(path, block or BLOCK):
        if not header:
            end = _header_end(data)
            header, separator, data = data[:end], _separator(data, path), data[end:]
            header = header if header.endswith(b"\n") else header + b"\n"
        if not data:
            continue
        try:
            refuse_other_text(header + data, path)
            if not data.isascii():
                check_utf8(header + data, path)
            frame = parse_delimited(header + data, separator, path)
        except InputError as error:
            raise InputError(_shifted(str(error), path, before)) from None
        blank = frame.select(pl.all_horizontal(pl.all().is_null())).to_series()
        rows = np.flatnonzero(~blank.to_numpy()) + (before + 2) if blank.any() else None
        yield Table(
            (frame if rows is None else frame.filter(~blank)).select(names), Places(path, first_row=before + 2, rows=rows)
        )
        before += frame.height


def _blocks(path: str, size: int) -> Iterator[bytes]:
    """Yield pieces that end behind a line feed outside quotes."""
    with _opened(path) as file:
        start = _read(file, _START, path)
    refuse_other_text(start, path)
    # Old Macintosh files end lines with a carriage return alone.
    old = b"\n" not in start and b"\r" in start.rstrip()
    rest = b""
    with _opened(path) as file:
        if start.startswith(b"\xef\xbb\xbf"):
            file.read(3)
        while data := _read(file, size, path):
            data = rest + (data.replace(b"\r", b"\n") if old else data)
            end = _last_end(data)
            if end:
                yield data[:end]
            elif len(data) > LONGEST:
                raise InputError(f"{path}: more than {LONGEST:,} bytes in one row; a quote is not closed, or it is no table")
            rest = data[end:]
    if rest:
        yield rest


def _last_end(data: bytes) -> int:
    """Return where the last record that is complete ends; 0 if there is none."""
    end = data.rfind(b"\n") + 1
    inside = data.count(b'"', 0, end) % 2
    while inside and end:
        before = data.rfind(b"\n", 0, end - 1) + 1
        inside ^= data.count(b'"', before, end) % 2
        end = before
    return end


def _header_end(data: bytes) -> int:
    end = data.find(b"\n") + 1
    while end and data.count(b'"', 0, end) % 2:
        end = data.find(b"\n", end) + 1
    return end or len(data)


def _separator(data: bytes, path: str) -> str:
    return sniff_separator(data, Path(path).name.removesuffix(".gz")[-4:].lower())


def _opened(path: str) -> IO[bytes] | gzip.GzipFile:
    with open(path, "rb") as file:
        zipped = file.read(2) == b"\x1f\x8b"
    return gzip.open(path, "rb") if zipped else open(path, "rb")


def _read(file: IO[bytes] | gzip.GzipFile, size: int, path: str) -> bytes:
    try:
        return file.read(size)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(f"{path}: the gzip data are damaged ({error}); download or compress it again") from None


def _shifted(message: str, path: str, rows: int) -> str:
    """Count the row in a message about one block from the beginning of the file."""
    found = re.match(rf"{re.escape(path)} row (\d+)", message)
    return message if found is None else f"{path} row {int(found[1]) + rows}{message[found.end() :]}"
