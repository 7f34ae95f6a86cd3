"""Tables without a row of column names: how they are read, and those whose first row was taken for one.

A first row of a file that recurs below it, cell by cell in its own columns, is a row like the others: read as names, it would
be lost, and what it says would be the names of annotators.
"""

from __future__ import annotations

import csv
from dataclasses import replace
from functools import cached_property
from typing import Any

import polars as pl

from crowdwise.errors import InputError, listed
from crowdwise.io.blanks import between_blanks, with_tabs
from crowdwise.io.exports import Request
from crowdwise.io.roles import example
from crowdwise.io.source import Places, Source, Table, read_text_bytes, sniff_separator

__all__ = ["Headless", "check_first_row", "refuse_rows_of_votes"]

# Names of columns are shorter.
_WORDS = 6
_ROLES = ("item", "annotator", "label")


class Headless(Source):
    """A delimited file, or numbers between blanks, without names of columns: these are called column 1, column 2, ..."""

    @cached_property
    def kind(self) -> str:
        """It is read as a table, whatever it would be taken for."""
        return "delimited"

    @cached_property
    def data(self) -> bytes:
        """The text of the file below a row of names."""
        data = read_text_bytes(self.path, self.name) if self.content is None else self.content
        data = with_tabs(data) if between_blanks(data) else data
        separator = sniff_separator(data, self.path.name.removesuffix(".gz")[-4:].lower())
        first = next(csv.reader([data.split(b"\n", 1)[0].decode("utf-8", "replace")], delimiter=separator), [])
        return separator.join(f"column {k + 1}" for k in range(len(first))).encode() + b"\n" + data

    def table(self, columns: Any, objects: str | None = None) -> Table:
        """The columns; the first row of the file is row 1."""
        found = super().table(columns)
        rows = None if found.where.rows is None else found.where.rows - 1
        return Table(found.frame, Places(found.where.source, 1, rows))


def check_first_row(frame: pl.DataFrame, source: Source, request: Request) -> None:
    """Refuse a table of which the names of columns are the cells of a row like those below, with the command that reads it."""
    names = [name for name in frame.columns if not frame[name].dtype.is_nested()]
    # A box that was ticked holds the name of its column and nothing else.
    again = [name for name in names if frame[name].n_unique() > 1 and (frame[name].cast(pl.String) == name).any()]
    counted = [str(k) for k in range(len(names))], [str(k + 1) for k in range(len(names))]
    if len(again) < 2 or 2 * len(again) < len(names) or names in counted:
        return
    if not all(_is_like(name, frame[name]) for name in names if name not in again):
        return
    raise InputError(
        f"{source.name}: the first row looks like the rows below it, not like names of columns: {listed(map(repr, again), 4)} "
        f"stand{'s' * (len(again) == 1)} below too. {_ways(source, request)}"
    )


def _is_like(name: str, cells: pl.Series) -> bool:
    """Whether a name may be a cell of its column: it differs from one by numbers alone, as ids do, or is a file or a text."""
    shape = _shape(pl.Series([name]))[0]
    same = _shape(cells) == shape
    return len(name.split()) > _WORDS or bool(same.any())


def _shape(names: pl.Series) -> pl.Series:
    return names.cast(pl.String).str.replace(r"^.*(\.[A-Za-z]\w{1,4})$", "#${1}").str.replace_all(r"\d+", "#")


def refuse_rows_of_votes(source: Source, request: Request) -> None:
    """Refuse a table without names of columns that has a row per vote, with the command that names its columns."""
    below = Headless(source.path, source.name, content=source.content)
    if example(below, replace(request, header=False), _ROLES):
        raise InputError(f"{source.name}: without names of columns, and a row looks like one vote. {_ways(source, request)}")


def _ways(source: Source, request: Request) -> str:
    """The commands that read a table without names."""
    told = replace(request, header=False)
    named = example(Headless(source.path, source.name, content=source.content), told, _ROLES)
    if named:
        wide = replace(told, annotators="column *").command(source.name)
        return (
            f"Say which column is what, for example: {named} (header=False in Python); if each column is an annotator: {wide}"
        )
    return f"Read it without names: {told.command(source.name)} (header=False in Python)"
