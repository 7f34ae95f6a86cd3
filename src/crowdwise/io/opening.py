"""How to open files, where they do not say it themselves."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from crowdwise.errors import CrowdwiseError, SettingError

__all__ = ["HOW", "Opening", "from_stdin", "opening"]

T = TypeVar("T")


@dataclass(frozen=True)
class Opening:
    """The encoding of text, the sheet of a workbook, the rows above the header; None where the file tells."""

    encoding: str | None = None
    sheet: str | None = None
    skip_rows: int | None = None


HOW: ContextVar[Opening] = ContextVar("opening", default=Opening())  # noqa: B039 (it is frozen)


@contextmanager
def opening(encoding: str | None = None, sheet: str | None = None, skip_rows: int | None = None) -> Iterator[None]:
    """Within this block, files are opened in this way."""
    given: Any = skip_rows
    if given is not None and (type(given) is not int or given < 0):
        raise SettingError(f"skip_rows must be a whole number of rows; got {skip_rows!r}")
    token = HOW.set(Opening(encoding, sheet, skip_rows))
    try:
        yield
    finally:
        HOW.reset(token)


def from_stdin(read: Callable[[Path], T]) -> T:
    """What `read` makes of stdin, which goes through a file; messages call that file stdin."""
    from crowdwise.io.leftovers import held_folder
    from crowdwise.io.limits import copied

    with held_folder() as folder:
        # Without a suffix the content decides, so JSON lines and Parquet can be piped in as well.
        file = folder / "stdin"
        with file.open("wb") as copy:
            copied(sys.stdin.buffer, copy, "stdin")
        try:
            return read(file)
        except CrowdwiseError as problem:
            words = str(problem).replace(f"crowdwise aggregate {file}", "crowdwise aggregate -").replace(str(file), "stdin")
            raise type(problem)(words) from problem
