"""Where results go: checked before the work starts, written whole after it is done."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crowdwise.cli.text import count, say
from crowdwise.errors import InputError, SettingError

if TYPE_CHECKING:
    import polars as pl

__all__ = ["check_outputs", "emit", "print_csv", "print_json", "to_stdout", "write", "wrote"]


def to_stdout(path: Path | None) -> bool:
    """Say whether the option asks for raw CSV on stdout."""
    return path is not None and str(path) == "-"


def check_outputs(
    outputs: Mapping[str, Path | None], inputs: tuple[str | Path | None, ...] = (), *, tables: bool = True
) -> None:
    """Refuse, before any work, what could not be written or would destroy an input.

    Parameters
    ----------
    outputs : mapping
        Option -> path. The option --page takes .html; all others take tables.
    inputs : tuple
        Paths that are read.
    tables : bool
        Whether the suffix must be that of a table.
    """
    from crowdwise.io.writer import table_suffix

    seen = {os.path.realpath(path): f"the input {path}" for path in inputs if path is not None and str(path) != "-"}
    for option, path in outputs.items():
        if path is None or to_stdout(path):
            continue
        try:
            if option == "--page":
                _check_page(path)
            elif tables:
                table_suffix(path)
        except InputError as problem:
            raise SettingError(f"{option}: {problem}") from None
        _check_folder(path, option)
        other = seen.get(os.path.realpath(path))
        if other is not None:
            raise SettingError(f"{option}: {path} is also {other}; name another file")
        seen[os.path.realpath(path)] = f"the output of {option}"


def _check_folder(path: Path, option: str) -> None:
    """Refuse a path whose folder does not exist, or that is itself a folder."""
    if not path.parent.is_dir():
        raise SettingError(f"{option}: the folder {str(path.parent)!r} does not exist; create it first")
    if path.is_dir():
        raise SettingError(f"{option}: {path} is a folder; name a file in it")
    if not os.access(path.parent, os.W_OK):
        raise SettingError(f"{option}: you may not write into the folder {str(path.parent)!r}; name another")


def _check_page(path: Path) -> None:
    if path.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"{path}: a page ends in .html")


def write(frame: pl.DataFrame, path: Path, what: str, quiet: bool = False, safe: bool = False) -> None:
    """Write a table whole and say so."""
    from crowdwise.io import write_table

    write_table(frame, path, spreadsheet_safe=safe)
    if not quiet:
        say(f"wrote {path}: {count(frame.height, what)}")


def wrote(path: Path, quiet: bool = False) -> None:
    """Say that something other than a table was written."""
    if not quiet:
        say(f"wrote {path}")


def emit(
    frame: pl.DataFrame, path: Path | None, what: str, *, limit: int = 20, quiet: bool = False, safe: bool = False
) -> None:
    """Send a table to its file, to a pipe as CSV, or the first rows of it to a terminal."""
    from crowdwise.cli.display import print_table

    if path is not None and not to_stdout(path):
        write(frame, path, what, quiet, safe)
    elif to_stdout(path) or not sys.stdout.isatty():
        print_csv(frame, safe)
    else:
        print_table(frame, limit=limit)
        if frame.height > limit:
            print(f"... and {count(frame.height - limit, what)} more; write all with -o FILE")


def print_csv(frame: pl.DataFrame, safe: bool = False) -> None:
    """Write CSV on stdout, as UTF-8 whatever the locale, some rows at a time."""
    if safe:
        from crowdwise.io.writer import escape_formulas

        frame = escape_formulas(frame)
    for index, part in enumerate(frame.iter_slices(100_000) if frame.height else [frame]):
        _write_stdout(part.write_csv(include_header=index == 0).encode())


def print_json(document: Any) -> None:
    """Write JSON on stdout; numbers that JSON lacks (NaN, infinity) become null."""
    text = json.dumps(_plain(document), ensure_ascii=False, indent=2, allow_nan=False)
    _write_stdout(text.encode("utf-8", "replace") + b"\n")


def _write_stdout(data: bytes) -> None:
    sys.stdout.flush()
    rest = memoryview(data)
    # With PYTHONUNBUFFERED, stdout is a raw file, and a raw write may stop half-way without an error.
    while rest:
        rest = rest[sys.stdout.buffer.write(rest) :]


def _plain(value: Any) -> Any:
    """Python's own types, all the way down."""
    if isinstance(value, Mapping):
        return {str(name): _plain(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)
