"""How to open files, where they do not say it themselves."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from crowdwise.errors import SettingError

__all__ = ["HOW", "Opening", "opening"]


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
