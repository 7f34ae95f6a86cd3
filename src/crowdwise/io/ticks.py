"""Labels that stand in a column of their own each, ticked or not, with a row per vote: GoEmotions, one-hot tables, tick boxes.

item,annotator,cat,dog
p1,ann,1,0
p1,bob,0,1
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from fnmatch import fnmatchcase
from functools import cached_property

import polars as pl

from crowdwise.data.encode import as_text
from crowdwise.errors import InputError, listed
from crowdwise.io.exports import Request
from crowdwise.io.source import Source, Table

__all__ = ["Ticked", "short_names", "tick_columns", "ticked"]

_YES = {"1", "1.0", "true", "yes", "x", "✓"}
_NO = {"0", "0.0", "false", "no", ""}


def ticked(source: Source, request: Request) -> Source:
    """The source with the column that `request.label` calls for: of several columns, each a label that is ticked or not.

    They are named with commas between them, or by a pattern. One name, or what is no column, is left to others.
    """
    if source.kind in ("folder", "matrix", "xml") or request.label is None or request.label in source.names:
        return source
    parts = [part.strip() for part in request.label.split(",")]
    found = [[name for name in source.names if name == part or fnmatchcase(name, part)] for part in parts]
    names = list(dict.fromkeys(name for some in found for name in some))
    return Ticked(source, request, names) if len(names) > 1 and all(found) else source


def short_names(names: Sequence[str]) -> list[str]:
    """Names without a beginning that all share, up to its last mark: cat and dog of data.cat and data.dog."""
    same = next((n for n, letters in enumerate(zip(*names, strict=False)) if len(set(letters)) > 1), len(min(names, key=len)))
    start = max(names[0].rfind(mark, 0, same) for mark in "_.: -") + 1
    return [name[start:] for name in names]


class Ticked(Source):
    """A table with one column of labels in the place of several that are ticked or not."""

    def __init__(self, source: Source, request: Request, ticks: list[str]) -> None:
        super().__init__(source.path, source.name, source.parts, source.content)
        self._source, self._request, self._ticks = source, request, ticks
        self._label = str(request.label)

    def table(self, columns: Sequence[str], objects: str | None = None) -> Table:
        """The columns, of which one may be made of those that were ticked."""
        if self._label not in columns:
            return self._source.table(columns, objects)
        plain = [name for name in columns if name != self._label]
        table = self._source.table([*plain, *self._ticks], objects)
        return Table(table.frame.select(plain).with_columns(self._labels(table)).select(columns), table.where)

    @cached_property
    def columns(self) -> list[str]:
        """Column names of the file, with the new one in the place of the others."""
        return self._without(self._source.columns)

    @cached_property
    def names(self) -> list[str]:
        """The same of all records."""
        return self._without(self._source.names)

    def _without(self, names: list[str]) -> list[str]:
        return [*(name for name in names if name not in self._ticks), self._label]

    def _labels(self, table: Table) -> pl.Series:
        """What was ticked in every row: a name, or a list of names as JSON; nothing where a row has no tick."""
        cells = [as_text(table.frame[name]).fill_null("").str.strip_chars() for name in self._ticks]
        yes = []
        for name, column in zip(self._ticks, cells, strict=True):
            low = column.str.to_lowercase()
            said = low.is_in([*_YES, name.strip().lower()])
            wrong = ~(said | low.is_in(list(_NO)))
            if wrong.any():
                row = int(wrong.arg_true()[0])
                raise InputError(
                    f"{table.where.row(row)}: {column[row]!r:.60} in column {name!r} says not whether it is ticked; expected 1 "
                    "or 0, true or false, x or nothing"
                )
            yes.append(said.to_list())
        split = self._request.several == "split"
        labels: list[str | None] = []
        classes = short_names(self._ticks)
        for row, marks in enumerate(zip(*yes, strict=True)):
            chosen = [name for name, mark in zip(classes, marks, strict=True) if mark]
            if len(chosen) > 1 and not split:
                way = self._request.command(self.name, "--type", "multilabel")
                raise InputError(
                    f"{table.where.row(row)}: several columns are ticked, {listed(map(repr, chosen), 4)}, and a vote has one "
                    f"class here; to read them as several labels: {way} (in Python: read(path, LabelSets))"
                )
            labels.append(json.dumps(chosen, ensure_ascii=False) if split else chosen[0] if chosen else None)
        return pl.Series(self._label, labels, dtype=pl.String)


def tick_columns(frame: pl.DataFrame, names: Sequence[str]) -> tuple[list[str], bool]:
    """Those of these columns that are ticked or not, in the same way, and whether exactly one is in every row."""
    said = {name: set(as_text(frame[name]).fill_null("").str.strip_chars().str.to_lowercase()) for name in names}
    for yes, no in (({"1", "1.0"}, {"0", "0.0", ""}), ({"true"}, {"false", ""}), ({"yes"}, {"no", ""}), ({"x", "✓"}, {""})):
        found = [name for name, seen in said.items() if seen <= yes | no and seen & yes]
        if len(found) > 1:
            marks = frame.select(as_text(frame[name]).str.strip_chars().str.to_lowercase().is_in(list(yes)) for name in found)
            times = marks.select(pl.sum_horizontal(pl.all().fill_null(False).cast(pl.Int32))).to_series()
            return found, bool((times == 1).all())
    return [], False
