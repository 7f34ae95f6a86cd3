"""Cells that hold several answers: how they are recognised and split, and how they are refused where a vote is one class.

A separator is believed when what stands between it recurs among the labels: tick boxes come alone and in combinations. Lists
(JSON, Python, numpy) are believed as they are.
"""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from crowdwise.data.encode import Where, as_text, missing_mask, tidy
from crowdwise.errors import InputError
from crowdwise.io.exports import Request
from crowdwise.io.object_cells import refuse_objects

__all__ = ["Joined", "as_list", "checked_labels", "find_joined", "joined_by", "split_cell"]

LIST, BRACKETS = "list", "brackets"
_WORDS = {
    LIST: "written as a list", BRACKETS: "in brackets", "\n": "separated by a line break",
    "|": "separated by '|'", ";": "separated by ';'", ",": "separated by ','",
}  # fmt: skip
_BRACKETED = re.compile(r"\s*\[[^\[\]]+\](?:\s*[,;]?\s*\[[^\[\]]+\])*\s*")
_QUOTED = re.compile(r"'((?:[^'\\]|\\.)*)'|\"((?:[^\"\\]|\\.)*)\"")
# What numpy prints has no commas; Python would read 'a' 'b' as 'ab'.
_NUMPY = re.compile(r"\[\s*(?:'[^']*'|\"[^\"]*\")(?:\s+(?:'[^']*'|\"[^\"]*\"))+\s*\]")
# Free text has too many distinct values to look at each.
_MOST = 20_000
# A longer cell is no list of labels, and Python's parser is not made for it.
_LONGEST = 100_000


@dataclass(frozen=True)
class Joined:
    """How several answers are written in one cell: the separator, or a kind of list, and such a cell."""

    mark: str
    example: str

    @property
    def words(self) -> str:
        """How the answers stand together."""
        return _WORDS.get(self.mark, f"separated by {self.mark!r}")


def as_list(cell: Any) -> list[Any] | None:
    """The elements of a list, or of text that is one in JSON, Python or numpy; None for anything else."""
    if isinstance(cell, list | tuple | set | frozenset):
        return sorted(cell, key=str) if isinstance(cell, set | frozenset) else list(cell)
    if hasattr(cell, "tolist") and not isinstance(cell, str):
        found = cell.tolist()
        return found if isinstance(found, list) else None
    text = cell.strip() if isinstance(cell, str) else ""
    if not (text[:1] in ("[", "(", "{") and text[-1:] in ("]", ")", "}")):
        return None
    if _NUMPY.fullmatch(text):
        return [one or other for one, other in _QUOTED.findall(text)]
    for parse in (json.loads, ast.literal_eval) if len(text) <= _LONGEST else ():
        try:
            with warnings.catch_warnings():
                # Python warns of escapes that are none.
                warnings.simplefilter("ignore")
                found = parse(text)
        except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError, SystemError):
            continue
        if isinstance(found, list | tuple | set) and _is_text(found):
            return sorted(found, key=str) if isinstance(found, set) else list(found)
        return None
    return None


def _is_text(found: Any) -> bool:
    """Whether no half of a surrogate pair is inside, which no file could hold."""
    try:
        json.dumps(list(found), ensure_ascii=False, default=str).encode()
    except (ValueError, TypeError, RecursionError):
        return False
    return True


def split_cell(cell: str, mark: str) -> list[str]:
    """The answers in one cell, each once and in order."""
    if mark == LIST:
        found = as_list(cell)
        parts = [cell] if found is None else [str(part) for part in _flat(found) if part is not None]
    elif mark == BRACKETS:
        parts = re.findall(r"\[([^\[\]]+)\]", cell) if _BRACKETED.fullmatch(cell) else [cell]
    else:
        parts = cell.split(mark)
    return list(dict.fromkeys(part for part in map(str.strip, parts) if part))


def _flat(values: Iterable[Any]) -> Iterable[Any]:
    for value in values:
        if isinstance(value, list | tuple | set):
            yield from _flat(value)
        else:
            yield value


def find_joined(distinct: Sequence[str]) -> Joined | None:
    """How these labels hold several answers, if they do."""
    seen = [label for label in distinct if label][:_MOST]
    lists = [label for label in seen if label.lstrip()[:1] in ("[", "(", "{") and as_list(label) is not None]
    if lists:
        return Joined(LIST, max(lists, key=lambda label: len(split_cell(label, LIST))))
    bracketed = [label for label in seen if len(split_cell(label, BRACKETS)) > 1]
    if bracketed:
        return Joined(BRACKETS, bracketed[0])
    for mark in ("\n", "|", ";", ","):
        found = _recurring(seen, mark)
        if found is not None:
            return Joined(mark, found)
    return None


def _recurring(seen: Sequence[str], mark: str) -> str | None:
    """A cell with several answers, if what stands between these marks recurs; see the module's first lines."""
    cells = {label: split_cell(label, mark) for label in seen if mark in label.strip()}
    several = {label: parts for label, parts in cells.items() if len(parts) > 1}
    if not several:
        return None
    alone = {label.strip() for label in seen if label not in several} | {
        parts[0] for parts in cells.values() if len(parts) == 1
    }
    times = Counter(part for parts in several.values() for part in parts)
    first = {parts[0] for parts in several.values()}
    later = {part for parts in several.values() for part in parts[1:]}
    recurs = {part for part, n in times.items() if n > 1 or part in alone}
    told = [label for label, parts in several.items() if recurs.issuperset(parts)]
    # "yes, surely" beside "no, surely" is a grade with a comma: its parts never stand alone, and keep their places.
    free = 2 * len(alone & set(times)) >= len(times) or (len(several) >= 3 and bool(first & later))
    if mark == "\n":
        return next(iter(told or several)) if recurs else None
    return told[0] if free and 2 * len(told) >= len(several) else None


def joined_by(distinct: Sequence[str], separator: str | None) -> Joined:
    """How to split labels that are known to be several: as told, as found, or by the first usual separator that occurs."""
    if separator is not None:
        lists = any(as_list(label) is not None for label in distinct[:_MOST])
        return Joined(separator, "") if not lists else Joined(LIST, "")
    found = find_joined(distinct)
    if found is not None:
        return found
    mark = next((mark for mark in ("\n", "|", ";") if any(mark in label for label in distinct)), "|")
    return Joined(mark, next((label for label in distinct if mark in label), ""))


def checked_labels(label: pl.Series, where: Where, request: Request, missing: Sequence[Any]) -> pl.Series:
    """Labels of votes for one class each: lists of one are unwrapped, several answers in a cell are refused."""
    if label.dtype != pl.String:
        return label
    given = label.filter(~missing_mask(label, missing))
    distinct = sorted(given.unique().drop_nulls().to_list())
    joined = find_joined(distinct)
    if request.several != "keep":
        refuse_objects(distinct, where.source)
    if joined is None or request.several in ("keep", "named"):
        return label
    parts = {text: split_cell(text, joined.mark) for text in distinct}
    # ["1", "1"] is two answers, though they are the same.
    several = [text for text, of in parts.items() if len(of) > 1 or (joined.mark == LIST and len(as_list(text) or ()) > 1)]
    if several:
        raise InputError(_refusal(label, several, joined, where, request))
    if joined.mark != LIST:
        return label
    one = {text: of[0] if of else None for text, of in parts.items() if of[:1] != [text]}
    request.notes.append(
        f"{where.source}: labels are lists of one; {next(iter(one))!r} is read as {next(iter(one.values()))!r}"
    )
    return label.replace_strict(list(one), list(one.values()), default=label, return_dtype=pl.String)


def _refusal(label: pl.Series, several: list[str], joined: Joined, where: Where, request: Request) -> str:
    mask = label.is_in(several).fill_null(False)
    row = int(mask.arg_true()[0])
    n = len(label) - label.null_count()
    often = "" if request.several == "distinct" else f", in {mask.sum():,} of {n:,} votes"
    ways = [request.command(where.source, *more) for more in (("--type", "multilabel"), ("--one-label",))]
    return (
        f"{where.row(row)}: several labels in one cell, {label[row]!r:.80}, {joined.words}{often}. "
        f"A vote has one class here; to read them as several labels: {ways[0]} (in Python: read(path, LabelSets)); if each is "
        f"one class of its own: {ways[1]} (in Python: several='keep')"
    )


def texts(column: pl.Series) -> pl.Series:
    """Cells as text; lists as JSON text."""
    if not column.dtype.is_nested() and column.dtype != pl.Object:
        return as_text(tidy(column))
    cells = [cell if not isinstance(cell, pl.Series) else cell.to_list() for cell in column.to_list()]
    return pl.Series(
        [None if cell is None else json.dumps(cell, ensure_ascii=False, default=str) for cell in cells], dtype=pl.String
    )
