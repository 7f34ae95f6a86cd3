"""Write tables; the suffix names the format, and a file appears whole or not at all, whatever stops the writer.

Imports nothing heavy, so that a crash test can start it two hundred times.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from os import fspath
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from crowdwise.errors import DataWarning, InputError, SettingError, listed

if TYPE_CHECKING:
    import polars as pl

    from crowdwise.io.source import AnyPath

__all__ = ["SUFFIXES", "check_place", "check_suffix", "escape_formulas", "for_spreadsheets", "open_replacing", "replacing"]
__all__ += ["rounded", "table_suffix", "write_json", "write_table"]


_PLOTS = (".png", ".pdf", ".svg")


def check_place(path: Path, option: str, seen: dict[str, str]) -> None:
    """Refuse a path whose folder does not exist, that is itself a folder, or that something else takes."""
    if path.is_char_device():
        return
    if not path.parent.is_dir():
        raise SettingError(f"{option}: the folder {str(path.parent)!r} does not exist; create it first")
    if path.is_dir():
        raise SettingError(f"{option}: {path} is a folder; name a file in it")
    if not os.access(path.parent, os.W_OK):
        raise SettingError(f"{option}: you may not write into the folder {str(path.parent)!r}; name another")
    other = seen.setdefault(os.path.realpath(path), f"the output of {option}")
    if other != f"the output of {option}":
        raise SettingError(f"{option}: {path} is also {other}; name another file")


def check_suffix(path: Path, option: str, kind: str) -> None:
    """Refuse a path that does not end as a "page", a "plot" or a "table" does."""
    name = str(path).lower()
    if kind == "page" and not name.endswith((".html", ".htm")):
        raise SettingError(f"{option}: {path}: a page ends in .html")
    if kind == "plot" and not name.endswith(_PLOTS):
        raise SettingError(f"{option}: {path}: a plot ends in {', '.join(_PLOTS)}")
    if kind == "table":
        try:
            table_suffix(path)
        except InputError as problem:
            raise SettingError(f"{option}: {problem}") from None


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a temporary path to write; on success it replaces `path` in one step.

    On any exception, `KeyboardInterrupt` included, the temporary file is removed and `path` stays
    as it was. A killed process leaves `path` entirely old or entirely new; what else it leaves is deleted by
    the next that writes into the folder.

    Parameters
    ----------
    path : path
        The file to create or replace. A symbolic link is followed, not replaced.

    Yields
    ------
    Path
        A new empty file in the same folder, because a rename is atomic only within a file system.
    """
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise IsADirectoryError(f"{os.fspath(path)} is a folder; name a file in it")
    if target.is_char_device():
        # /dev/null and terminals take what is written; nothing may take their place.
        yield target
        return
    _clear_left(target.parent)
    temporary, lock = _temporary_beside(target)
    try:
        yield temporary
        if target.exists():
            os.chmod(temporary, target.stat().st_mode & 0o7777)
        _sync(temporary, os.O_RDWR)
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    finally:
        if lock is not None:
            os.close(lock)
    # Without this the rename itself may be lost when the power fails.
    with contextlib.suppress(OSError):
        _sync(target.parent, os.O_RDONLY)


def _temporary_beside(target: Path) -> tuple[Path, int | None]:
    """A new empty file, and its lock, by which others see that it is being written; None where there are no such locks."""
    while True:
        # The suffix stays last, so that writers that look at it still recognise the format.
        temporary = target.with_name(f".{os.urandom(8).hex()}.tmp{target.suffix}")
        # os.open rather than tempfile: the user's umask decides who may read the result.
        file = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)
        try:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)
        except (ImportError, OSError):
            os.close(file)
            return temporary, None
        # Somebody who clears the folder may have been quicker than the lock.
        if os.fstat(file).st_nlink:
            return temporary, file
        os.close(file)


# Folders that this process has looked through.
_CLEARED: set[Path] = set()


def _clear_left(folder: Path) -> None:
    """Delete what killed writers have left in a folder, once per process."""
    if folder in _CLEARED:
        return
    _CLEARED.add(folder)
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        left = [entry.path for entry in entries if entry.name.startswith(".") and ".tmp" in entry.name]
        if left:
            from crowdwise.io.leftovers import clear_files, is_temporary

            clear_files([path for path in left if is_temporary(os.path.basename(path))])


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


SUFFIXES: dict[str, Callable[[pl.DataFrame, Any], None]] = {
    ".csv": lambda frame, file: frame.write_csv(file),
    ".tsv": lambda frame, file: frame.write_csv(file, separator="\t"),
    ".jsonl": lambda frame, file: frame.write_ndjson(file),
    ".ndjson": lambda frame, file: frame.write_ndjson(file),
    ".json": lambda frame, file: frame.write_json(file),
    ".parquet": lambda frame, file: frame.write_parquet(file),
    ".arrow": lambda frame, file: frame.write_ipc(file),
    ".ipc": lambda frame, file: frame.write_ipc(file),
    ".feather": lambda frame, file: frame.write_ipc(file),
}
_BINARY = (".parquet", ".arrow", ".ipc", ".feather")
# Spreadsheets run cells that begin so as formulas, some also with the wide forms; a sign alone, or a number, is harmless.
_STARTS = "=+-@\t\r\n\uff1d\uff0b\uff0d\uff20"
_FORMULA, _NUMBER = r"(?s)^[=+\-@\t\r\n\x{ff1d}\x{ff0b}\x{ff0d}\x{ff20}].", r"^[+\-]?(\d+\.?\d*|\.\d+)([eE][+\-]?\d+)?$"


def write_table(frame: pl.DataFrame, path: AnyPath, *, spreadsheet_safe: bool = False) -> None:
    """Write a frame as CSV, TSV, JSONL, JSON, Parquet or Arrow, by suffix; text also with .gz after it.

    Parameters
    ----------
    frame : polars.DataFrame
    path : path
        Replaced in one step; its folder must exist.
    spreadsheet_safe : bool
        Put a single quote before text cells of CSV and TSV that a spreadsheet would run as a
        formula (they start with = + - @, a tab or a line end). Off by default here, because the quote is then part of
        the text for every other reader; the command line escapes unless it is told --raw.
    """
    suffix = table_suffix(path)
    if suffix in (".csv", ".tsv"):
        nested = [name for name, dtype in frame.schema.items() if dtype.is_nested()]
        if nested:
            raise InputError(
                f"{fspath(path)}: column {nested[0]!r} holds lists, which {suffix} cannot; write .jsonl or .parquet"
            )
        frame = for_spreadsheets(frame, fspath(path)) if spreadsheet_safe else frame
    with open_replacing(path) as file:
        SUFFIXES[suffix](frame, file)


def rounded(frame: pl.DataFrame, path: Path | None = None) -> pl.DataFrame:
    """A table for text with six digits of every fraction; binary files keep all."""
    import polars as pl
    from polars import selectors

    if path is not None and table_suffix(path) in _BINARY:
        return frame
    value = selectors.float()
    return frame.with_columns(pl.when(value.abs() < 1).then(value.round_sig_figs(6)).otherwise(value.round(6)).name.keep())


def write_json(document: Any, path: AnyPath, *, lines: bool = False) -> None:
    """Write a JSON document, or a list of objects as JSON lines."""
    with open_replacing(path) as file:
        for part in document if lines else [document]:
            file.write(json.dumps(part, ensure_ascii=False, indent=None if lines else 1).encode() + b"\n")


def table_suffix(path: AnyPath) -> str:
    """Return the suffix that names the format, or explain which there are; a device such as /dev/null gets CSV."""
    if Path(path).is_char_device():
        return ".csv"
    if Path(path).is_dir():
        raise InputError(f"{fspath(path)} is a folder; name a file in it")
    name = Path(path).name.lower()
    suffix = Path(name.removesuffix(".gz")).suffix
    if suffix not in SUFFIXES:
        raise InputError(
            f"{fspath(path)}: cannot write {suffix or 'a file without a suffix'}; use one of {', '.join(SUFFIXES)}"
        )
    if suffix in _BINARY and name.endswith(".gz"):
        raise InputError(f"{fspath(path)}: {suffix} is compressed already; leave .gz out")
    return suffix


@contextmanager
def open_replacing(path: AnyPath) -> Iterator[IO[bytes]]:
    """Open a new file that replaces `path` when the block ends well; .gz is compressed."""
    folder = Path(path).parent
    if not folder.is_dir():
        raise InputError(f"{fspath(path)}: the folder {fspath(folder)!r} does not exist; create it first")
    try:
        with replacing(path) as temporary, temporary.open("wb") as raw:
            if Path(path).suffix.lower() == ".gz":
                # No time and no name inside, so that equal votes give equal files.
                with gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as file:
                    yield file  # type: ignore[misc]
            else:
                yield raw
    except OSError as error:
        raise InputError(f"{fspath(path)}: cannot be written ({error.strerror or error}); nothing was changed") from None


def for_spreadsheets(frame: pl.DataFrame, name: str) -> pl.DataFrame:
    """Escape formulas, and warn where there are any: programs that read the table will not find these texts as they were."""
    risky = _formula_columns(frame)
    if not risky:
        return frame
    warnings.warn(
        f"{name}: a ' was put before what a spreadsheet would run as a formula, in {listed(map(repr, risky), 3)}; "
        "for programs, write it as it is with --raw or spreadsheet_safe=False",
        DataWarning,
        stacklevel=4,
    )
    return escape_formulas(frame)


def escape_formulas(frame: pl.DataFrame) -> pl.DataFrame:
    """Put a single quote before text that a spreadsheet would run as a formula."""
    import polars as pl

    risky = _formula_columns(frame)
    texts = [name for name in risky if frame.schema[name] == pl.String]
    frame = frame.with_columns(
        pl.when(_runs(name)).then("'" + pl.col(name)).otherwise(pl.col(name)).alias(name) for name in texts
    )
    taken = set(frame.columns)
    renamed = {}
    for name in (name for name in risky if name[:1] in _STARTS):
        safe = f"'{name}"
        while safe in taken:
            safe = f"'{safe}"
        taken.add(safe)
        renamed[name] = safe
    return frame.rename(renamed) if renamed else frame


def _formula_columns(frame: pl.DataFrame) -> list[str]:
    """Names of columns with text, or a name, that a spreadsheet would run as a formula."""
    import polars as pl

    texts = [name for name, dtype in frame.schema.items() if dtype == pl.String]
    found = frame.select(_runs(name).any() for name in texts).row(0) if texts and frame.height else ()
    risky = {name for name, hit in zip(texts, found, strict=False) if hit}
    return [name for name in frame.columns if name in risky or (len(name) > 1 and name[0] in _STARTS)]


def _runs(name: str) -> pl.Expr:
    import polars as pl

    # Numbers are rare among texts that begin so, and begin themselves with a sign.
    text = pl.col(name)
    return text.str.contains(_FORMULA) & ~text.str.contains(_NUMBER)
