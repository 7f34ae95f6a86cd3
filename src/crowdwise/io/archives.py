"""Files that hold a table inside something else: workbooks, zip archives, other encodings, titles above the header."""

from __future__ import annotations

import csv
import warnings
import zipfile
import zlib
from collections.abc import Collection
from pathlib import Path, PurePosixPath
from typing import Any

from crowdwise.data.columns import plays_role
from crowdwise.errors import DataWarning, InputError, MissingExtraError, did_you_mean, listed
from crowdwise.io.advice import adapted
from crowdwise.io.limits import check_archive
from crowdwise.io.opening import HOW

__all__ = ["below_titles", "decoded", "unpacked"]

# Rows above a header that are looked at.
_TITLES = 20
_BINARY = (".parquet", ".pq", ".arrow", ".ipc", ".feather")
_SEPARATORS = (",", "\t", ";", "|")
_SPREADSHEETS = (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods")


def unpacked(path: Path, name: str, suffixes: Collection[str]) -> tuple[Path, str, bytes]:
    """The table inside a workbook or a zip archive: a path for its suffix, what to call it, and its content."""
    if path.suffix.lower() in _SPREADSHEETS:
        return _sheet_text(path, name)
    try:
        with zipfile.ZipFile(path) as archive:
            if "[Content_Types].xml" in archive.namelist():
                return _sheet_text(path, name)
            return _member(archive, path, name, suffixes)
    except (zipfile.BadZipFile, OSError, EOFError, NotImplementedError, RuntimeError, ValueError, zlib.error) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{name}: not a readable zip archive ({error}); download it again, or unpack it") from None


def _member(archive: zipfile.ZipFile, path: Path, name: str, suffixes: Collection[str]) -> tuple[Path, str, bytes]:
    """The only table of an archive; several are refused, for which is meant is unknown."""
    check_archive(archive, path.stat().st_size, name)
    tables = [member for member in archive.namelist() if _is_table(member, suffixes)]
    if len(tables) != 1:
        found = listed(tables) or "none"
        raise InputError(f"{name}: a zip archive is read where it holds one table; found {found}. Unpack it and name a file")
    if PurePosixPath(tables[0]).suffix.lower() in _BINARY:
        raise InputError(f"{name} ({tables[0]}): unpack the archive first; only text is read inside one")
    return Path(path, tables[0]), f"{name} ({tables[0]})", archive.read(tables[0])


def _is_table(member: str, suffixes: Collection[str]) -> bool:
    parts = PurePosixPath(member)
    hidden = any(part.startswith((".", "__MACOSX")) for part in parts.parts)
    return parts.suffix.lower() in suffixes and not hidden and not member.endswith("/")


# -- workbooks -----------------------------------------------------------------------------------


def _sheet_text(path: Path, name: str) -> tuple[Path, str, bytes]:
    """The sheet with a table in it, as text: every cell is what is stored, and no type is guessed."""
    try:
        import fastexcel  # noqa: F401
        import polars as pl
    except ImportError:
        raise MissingExtraError(
            f"{name}: reading a spreadsheet needs fastexcel: pip install 'crowdwise[excel]'; or save it as CSV UTF-8"
        ) from None
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            check_archive(archive, path.stat().st_size, name)
    how: dict[str, Any] = {"has_header": False, "infer_schema_length": 0, "raise_if_empty": False}
    how |= {"drop_empty_rows": False, "drop_empty_cols": False}
    try:
        sheets = pl.read_excel(path, sheet_id=0, **how)
    except Exception as error:
        # The reader raises errors of several libraries, and its own.
        raise InputError(f"{name}: not a readable spreadsheet ({str(error).splitlines()[0]:.200}); save it again") from None
    title, cells = _sheet(sheets, name)
    text = cells.select(pl.all().cast(pl.String)).write_csv(include_header=False)
    return path.with_suffix(".csv"), f"{name} ({title})" if len(sheets) > 1 else name, text.encode()


def _sheet(sheets: dict[str, Any], name: str) -> tuple[str, Any]:
    wanted = HOW.get().sheet
    if wanted is not None:
        if wanted not in sheets:
            known = ", ".join(map(repr, sheets))
            raise InputError(f"{name}: no sheet {wanted!r}; found {known}{did_you_mean(wanted, list(sheets))}")
        return wanted, sheets[wanted]
    filled = {title: cells for title, cells in sheets.items() if cells.height}
    if len(filled) == 1:
        return next(iter(filled.items()))
    if not filled:
        raise InputError(f"{name}: every sheet is empty")
    fullest = max(filled, key=lambda title: filled[title].height)
    raise InputError(
        f"{name}: several sheets: {listed(map(repr, filled))}. Pick one, for example: "
        f"{adapted(name, {}, '--sheet', fullest)} (sheet=... in Python)"
    )


# -- text ----------------------------------------------------------------------------------------


def decoded(data: bytes, encoding: str, name: str) -> bytes:
    """Text in another encoding as UTF-8."""
    try:
        return data.decode(encoding).removeprefix("\ufeff").encode()
    except LookupError:
        raise InputError(f"--encoding: Python knows no {encoding!r}; common are utf-16, cp1252, latin-1, gb18030") from None
    except UnicodeError as error:
        at = getattr(error, "start", 0)
        row = data.count(b"\n", 0, at) + 1
        raise InputError(
            f"{name} row {row}: not {encoding} ({getattr(error, 'reason', error)}); name another encoding"
        ) from None


def below_titles(data: bytes, separator: str, name: str) -> tuple[bytes, str, int]:
    """The text from its header on, its separator and the row of the header.

    A first line ``sep=;`` names the separator, as Excel writes it. Rows with one filled cell, or none, above the first with
    several are titles, and so are others above one that names an item, an annotator or a label where they do not. What has
    fewer cells than the rows below it in another way may as well be a header: it stays.
    """
    first, rest = 1, data
    line, _, below = data.partition(b"\n")
    mark = line.strip(b'\r" ').decode("utf-8", "replace")
    if mark[:4].lower() == "sep=" and len(mark) == 5:
        rest, separator, first = below, mark[4], 2
    skip = HOW.get().skip_rows
    if skip is None:
        skip, found = _titles(rest, separator if first == 2 else None)
        separator = found or separator
    if not skip:
        return rest, separator, first
    for _ in range(skip):
        line, _, rest = rest.partition(b"\n")
    while rest.strip() and not rest.partition(b"\n")[0].strip(b" \t\r,;|"):
        # Nobody counts the empty rows between a title and a header.
        line, _, rest = rest.partition(b"\n")
        skip += 1
    if not rest.strip():
        raise InputError(f"{name}: no row is left below the {skip} that are skipped")
    if HOW.get().skip_rows is None:
        rows = "1 row above the header is" if skip == 1 else f"{skip} rows above the header are"
        what = f"{rows} left out (the header is row {first + skip})"
        warnings.warn(f"{name}: {what}", DataWarning, stacklevel=2)
    elif first == 1:
        separator = _titles(rest, None)[1] or separator
    return rest, separator, first + skip


def _titles(data: bytes, separator: str | None) -> tuple[int, str | None]:
    """How many rows of at most one cell come before the first with several, and the separator that shows it."""
    best: tuple[int, str | None] = (0, None)
    width = 1
    texts = [line.decode("utf-8", "replace").rstrip("\r") for line in data.split(b"\n", _TITLES + 2)[: _TITLES + 2]]
    for candidate in (separator,) if separator else _SEPARATORS:
        rows = [_cells(text, candidate) for text in texts]
        filled = [len(row) for row in rows]
        start = next((k for k, cells in enumerate(filled) if cells > 1), None)
        named = next((k for k, row in enumerate(rows) if _roles(row) > 1 and _is_below(filled, k)), None)
        if named is not None and not any(_roles(row) for row in rows[:named]):
            start = named
        # A header has rows like it below; one column of texts with commas in them has not.
        if start is not None and filled[start] > width and any(cells > 1 for cells in filled[start + 1 :]):
            best, width = (start, candidate), filled[start]
    return best


def _is_below(filled: list[int], k: int) -> bool:
    """Whether a row has more cells than all above it, or as many below an empty one."""
    most = max(filled[:k], default=0)
    return filled[k] > most or (filled[k] == most and k > 1 and filled[k - 1] == 0)


def _cells(text: str, separator: str) -> list[str]:
    try:
        row = next(csv.reader([text], delimiter=separator), [])
    except csv.Error:
        row = text.split(separator)
    return [cell for cell in row if cell.strip()]


def _roles(row: list[str]) -> int:
    """How many roles of a table of votes these cells name."""
    return sum(plays_role(row, role) for role in ("item", "annotator", "label"))
