"""Numbers in columns, or in mappings, that may be labels, counts of votes per class, or shares of them: what they look like.

Annotators of one item mostly agree; classes of one item take votes from each other. Where numbers leave it open, both
commands are given and nothing is read.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from crowdwise.data.matrices import seem_counts
from crowdwise.errors import DataWarning, InputError, listed
from crowdwise.io.exports import Request
from crowdwise.io.roles import never_votes, words_of
from crowdwise.io.source import Table

__all__ = [
    "LOGARITHM",
    "check_total",
    "is_distribution",
    "log_columns",
    "numbers_of",
    "refuse_counts_or_labels",
    "refuse_mapped_counts",
    "refuse_mapped_labels",
    "refuse_shares",
]
__all__ += ["repeats_itself", "share_columns", "shares_as_counts", "tallied"]

# Keys beyond this number are people.
_MOST_CLASSES = 100

# Words for a row below the others.
_TOTALS = {"total", "totals", "sum", "summe", "gesamt", "mean", "average", "avg", "count", "agreement", "kappa", "majority"}
# Words in the names of columns of probabilities.
_PROBABLE = {"p", "pr", "prob", "proba", "probability", "share", "shares", "pct", "percent", "fraction"}
# Names that say "annotator 3": nothing about them is open.
_PERSON = re.compile(r"(annotator|worker|rater|coder|judge|user|labell?er|expert|person|crowd|label|vote|[arwcju])[ _.-]?\d+")
_SUM = 0.02
LOGARITHM = re.compile(r"(?i)(?:^|[_ .-])(?:log_?probs?|log_?probabilit(?:y|ies)|log_?p|lps?)(?:$|[_ .-])").search
# In so many rows columns do not add up to 1 by chance.
_MANY_ROWS = 10
# Shares of more votes than these are measured, not counted.
_MOST_VOTES = 100


def is_distribution(cell: Any) -> bool:
    """Whether a list or a mapping holds fractions that add up to 1."""
    values = list(cell.values()) if isinstance(cell, dict) else cell
    numbers = isinstance(values, list) and len(values) > 1 and all(type(value) in (int, float) for value in values)
    return numbers and any(type(value) is float for value in values) and abs(sum(values) - 1) < 0.02


def is_log_distribution(cell: Any) -> bool:
    """Whether a mapping holds logarithms of fractions that add up to most of 1: a language model names only the likeliest."""
    values = list(cell.values()) if isinstance(cell, dict) else []
    if not values or not all(type(value) in (int, float) and value <= 0 for value in values):
        return False
    return 0.5 <= sum(map(math.exp, values)) < 1.02


def repeats_itself(value: Any) -> bool:
    """Whether a list holds a label twice: ticks of one person are different, votes of several people are not."""
    return isinstance(value, list) and all(isinstance(part, str | int) for part in value) and len(set(value)) < len(value)


def refuse_mapped_labels(mappings: Sequence[Any], key: str, source: str, request: Request) -> None:
    """Refuse mappings to whole numbers, taken as votes per class, that do not look like it."""
    if {"count", "counts", "counter"}.isdisjoint(words_of(key)) and _mapped_counts(mappings) is False:
        _refuse_mapped(mappings, key, source, request, "judges" if key == "scores" else "keyed")


def refuse_mapped_counts(mappings: Sequence[Any], key: str, source: str, request: Request, taken: str) -> None:
    """Refuse mappings to whole numbers, taken as labels in the format `taken`, that look like votes per class."""
    if _mapped_counts(mappings):
        _refuse_mapped(mappings, key, source, request, taken)


def _mapped_counts(mappings: Sequence[Any]) -> bool | None:
    """Whether mappings look like votes per class: as many in all, or seeming so; None where there are too few to tell."""
    whole = [mapping for mapping in mappings if isinstance(mapping, dict)]
    if len(whole) < 3 or any(type(value) is not int for mapping in whole for value in mapping.values()):
        return None
    table = tallied(whole)
    if table is None:
        return False
    total = table.sum(axis=1)
    return bool((total == total[0]).all()) or seem_counts(table)


def tallied(mappings: Sequence[dict[str, int]]) -> Any:
    """Whole numbers by key as a table, [mappings, keys]; None where there are more keys than classes can be."""
    keys = list(dict.fromkeys(name for mapping in mappings for name in mapping))
    if len(keys) > _MOST_CLASSES:
        return None
    return np.array([[mapping.get(name, 0) for name in keys] for mapping in mappings], float)


def _refuse_mapped(mappings: Sequence[Any], key: str, source: str, request: Request, labels: str) -> None:
    ways = [replace(request, format=name).command(source) for name in (labels, "counts")]
    raise InputError(
        f"{source}: {key!r} holds {mappings[0]!r:.60}: labels of annotators, or counts of votes per class. If they are labels: "
        f"{ways[0]}; if they are counts: {ways[1]}"
    )


def numbers_of(frame: pl.DataFrame, names: Sequence[str]) -> Any:
    """The cells of these columns as numbers, "80%" as 0.8, NaN where they are none."""
    columns = []
    for name in names:
        text = frame[name].cast(pl.String).str.strip_chars()
        values = text.str.strip_suffix("%").cast(pl.Float64, strict=False).fill_null(np.nan).to_numpy()
        columns.append(np.where(text.str.ends_with("%").fill_null(False).to_numpy(), values / 100, values))
    return np.stack(columns, axis=1) if columns else np.zeros((frame.height, 0))


def refuse_counts_or_labels(frame: pl.DataFrame, voting: Sequence[str], source: str, request: Request) -> None:
    """Refuse columns of whole numbers that may be annotators with their labels, or classes with their counts."""
    values = numbers_of(frame, voting)
    # up_votes and down_votes are numbers of people, whatever they look like.
    votes = all(words_of(name)[-1:] == ["votes"] for name in voting) and not np.isnan(values).any()
    if all(_PERSON.fullmatch(name.strip().lower()) for name in voting) or not (votes or seem_counts(values)):
        return
    ways = [
        replace(request, annotators=",".join(voting)).command(source),
        replace(request, format="counts", annotators=",".join(voting)).command(source),
    ]
    seen = "" if votes else " (some are 0, and where one is large the others are small)"
    raise InputError(
        f"{source}: the numbers in {listed(map(repr, voting), 5)} may be labels of annotators, or counts of votes per class"
        f"{seen}. If the columns are classes: {ways[1]}; if they are annotators: {ways[0]}"
    )


def share_columns(frame: pl.DataFrame) -> list[str]:
    """Columns of fractions that add up to 1 (or 100) in every row: shares of votes, or probabilities; else none."""
    found = []
    for name in frame.columns:
        if frame[name].dtype.is_nested() or (never_votes(name) and _PROBABLE.isdisjoint(words_of(name))):
            continue
        text = frame[name].cast(pl.String).str.strip_chars().str.strip_suffix("%")
        values = text.cast(pl.Float64, strict=False)
        if values.null_count() < frame.height and values.is_between(0, 100).fill_null(text.is_null()).all():
            found.append(name)
    values = numbers_of(frame, found)
    if len(found) < 2 or frame.height < 2 or not (values != np.floor(values))[~np.isnan(values)].any():
        return []
    if _adds_up(values):
        return found
    # Of several questions, or beside what was made of them, the first run of neighbours.
    runs = ((a, b) for a in range(min(len(found), _MOST_CLASSES)) for b in range(min(len(found), _MOST_CLASSES), a + 1, -1))
    many = len(values) >= _MANY_ROWS and not np.isnan(values).any()
    return next((found[a:b] for a, b in runs if _adds_up(values[:, a:b])), []) if many else []


def _adds_up(values: Any) -> bool:
    """Whether fractions add up to 1, or percents to 100, in every row that is not empty."""
    total = np.nansum(values, axis=1)
    total = total[~np.isnan(values).all(axis=1)]
    given = values[~np.isnan(values)]
    whole = 1 if (given <= 1).all() else 100
    return bool(len(total) and (given != np.floor(given)).any() and (np.abs(total / whole - 1) < _SUM).all())


def log_columns(frame: pl.DataFrame) -> list[str]:
    """Columns that hold log-probabilities, one per class, by their names and as their numbers allow; else none."""
    found = [name for name in frame.columns if LOGARITHM(name) and not frame[name].dtype.is_nested()]
    values = numbers_of(frame, found)
    return found if len(found) > 1 and not np.isnan(values).all() and np.nanmax(values) <= 0 else []


def refuse_shares(names: Sequence[str], source: str, request: Request, people: bool, logs: bool = False) -> None:
    """Refuse numbers that add up to 1 where a vote is one class; `people` says whether rows name who voted."""
    soft = replace(request, label=None).command(source, "--probabilities", ",".join(names))
    if logs:
        what = f"{source}: no label column; {listed(map(repr, names), 5)} hold log-probabilities of the classes"
        raise InputError(f"{what}. Read them: {soft} (probabilities=... in Python)")
    what = f"{source}: the numbers in {listed(map(repr, names), 5)} add up to 1 in every row"
    if people:
        raise InputError(f"{what}: probabilities of the classes. Read them: {soft} (probabilities=... in Python)")
    counts = replace(request, format="counts", annotators=",".join(names)).command(source)
    raise InputError(
        f"{what}. If they are shares of the votes on an item: {counts}; if they are one model's probabilities: {soft} "
        "(probabilities=... in Python)"
    )


def shares_as_counts(values: Any) -> tuple[Any, int] | None:
    """Counts of the fewest votes, the same for all rows, that give these shares, and how many; None where none does."""
    if not (values != np.floor(values)).any() or np.isnan(values).any() or (values < 0).any():
        return None
    whole = values.sum(axis=1)
    whole = 1.0 if (np.abs(whole - 1) < _SUM).all() else 100.0 if (np.abs(whole - 100) < 100 * _SUM).all() else None
    # Shares are rounded to two digits, or more.
    digits = next(
        (d for d in range(2, 9) if np.allclose(np.round(values / (whole or 1), d), values / (whole or 1), 0, 1e-12)), 9
    )
    for n in range(2, _MOST_VOTES + 1) if whole is not None else ():
        counts = np.rint(values / whole * n)
        if (np.abs(counts / n - values / whole) < 0.51 * 10.0**-digits).all() and (counts.sum(axis=1) == n).all():
            return counts.astype(np.int64), n
    return None


def check_total(table: Table, ids: str, chosen: Sequence[str], counts: bool = False) -> None:
    """Refuse a last row that sums up the others: its name says so, and its labels occur nowhere else, or are the sums.

    Where only its name says so, warn: it counts as an item.
    """
    last = table.frame.height - 1
    name = table.frame[ids][last] if last > 0 else None
    if not isinstance(name, str) or _TOTALS.isdisjoint(words_of(name)) or len(words_of(name)) > 2:
        return
    place, cells = table.where.row(last), table.frame.select(pl.col(chosen).cast(pl.String))
    above = set(cells[:last].unpivot()["value"].drop_nulls().to_list())
    values = numbers_of(table.frame, chosen)
    sums = counts and bool((values[:last].sum(axis=0) == values[last]).all())
    if sums or (not counts and above.isdisjoint(cell for cell in cells.row(last) if cell is not None)):
        raise InputError(f"{place}: {name!r} sums up the rows above, and is no item; remove the row")
    warnings.warn(
        f"{place}: {name!r} counts as an item, and looks like a row that sums up the others; if so, remove it",
        DataWarning,
        stacklevel=2,
    )
