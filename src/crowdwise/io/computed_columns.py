"""Columns of a wide table that were computed from the others, as a majority or a mark of agreement, and vote like a person."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from crowdwise.errors import DataWarning, listed
from crowdwise.io.exports import Request
from crowdwise.io.roles import words_of

__all__ = ["warn_of_computed"]

# All by judgement; the last limit with simulated crowds of honest people in view.
# Beyond so many columns a computed one hardly counts, and so many rows are enough to tell.
_MOST_COLUMNS, _MOST_ROWS = 50, 5_000
_LEAST_ROWS = 10
# Of two others, a majority is what both say, as a person may well do; and of three columns with two labels, each says whether
# the others agree as soon as one does.
_LEAST_OTHERS = 3
# A person as good as the best of the others would agree in all rows with at most this probability.
_CHANCE = 0.001
_WORDS = {"agree", "result", "decision", "decided", "outcome", "overall", "mehrheit", "konsens", "ergebnis", "endergebnis"}
_WORDS |= {"entscheidung", "einigkeit", "resultat", "decisión", "résultat"}


def warn_of_computed(frame: pl.DataFrame, chosen: Sequence[str], source: str, request: Request) -> None:
    """Warn of columns that always are the majority of the other voting columns, or say whether these agree."""
    if not _LEAST_OTHERS < len(chosen) <= _MOST_COLUMNS or request.annotators is not None:
        return
    codes = _codes(frame.head(_MOST_ROWS), chosen)
    counts = _counts(codes)
    agreeing, majority = [k for k, own in enumerate(codes.T) if _says_agreement(_without(counts, own), own)], []
    columns = [k for k in range(len(chosen)) if k not in agreeing]
    # The last is named first: computed columns stand behind those they are made of, and a majority of few follows the best.
    while (found := _majorities(codes[:, columns], [chosen[k] for k in columns])) is not None:
        majority.append(columns.pop(found))
    named = [chosen[k] for k in sorted([*agreeing, *majority])]
    if not named:
        return
    rows = "in every row" if frame.height <= _MOST_ROWS else f"in each of the first {_MOST_ROWS:,} rows"
    how = [f"{_names(chosen, agreeing)} {rows} whether the other columns agree"] if agreeing else []
    how += [f"{_names(chosen, majority)} {rows} what most of the other columns say"] if majority else []
    given = [] if request.exclude is None else [request.exclude] if isinstance(request.exclude, str) else request.exclude
    way = replace(request, exclude=",".join([*given, *named])).command(source)
    warnings.warn(
        f"{source}: {'; '.join(how)}. If this was computed from the others, it is no annotator: {way} (exclude=... in Python)",
        DataWarning,
        stacklevel=2,
    )


def _names(chosen: Sequence[str], found: Sequence[int]) -> str:
    return f"{listed((repr(chosen[k]) for k in sorted(found)), 4)} {'says' if len(found) == 1 else 'say'}"


def _codes(frame: pl.DataFrame, names: Sequence[str]) -> NDArray[np.int64]:
    """Labels as numbers, [rows, columns]; -1 where a cell is empty."""
    cells = [frame[name].cast(pl.String).str.strip_chars().replace("", None) for name in names]
    code = {label: k for k, label in enumerate(pl.concat(cells).drop_nulls().unique(maintain_order=True))}
    return np.stack([[code.get(cell, -1) for cell in column] for column in cells], axis=1)


def _majorities(codes: NDArray[np.int64], names: Sequence[str]) -> int | None:
    """The last column that is the majority of the others wherever they have one, and hardly by chance; else None."""
    if len(names) <= _LEAST_OTHERS:
        return None
    counts = _counts(codes)
    shares = [_share(_without(counts, own), own) for own in codes.T]
    best = max((share for share, n, _ in shares if n and share < 1), default=1.0)
    for k in reversed(range(len(names))):
        share, n, disputed = shares[k]
        if share == 1 and n >= _LEAST_ROWS and disputed and (best**n < _CHANCE or _WORDS & set(words_of(names[k]))):
            return k
    return None


def _share(counts: NDArray[np.int64], own: NDArray[np.int64]) -> tuple[float, int, int]:
    """How often a column is the majority of the others, of how many rows that have one, and in how many others disagree."""
    most = counts.max(axis=1)
    told = (most > 0) & ((counts == most[:, None]).sum(axis=1) == 1) & (own >= 0)
    n = int(told.sum())
    same = counts[told].argmax(axis=1) == own[told]
    return float(same.mean()) if n else 0.0, n, int((counts[told].sum(axis=1) > most[told]).sum())


def _says_agreement(counts: NDArray[np.int64], own: NDArray[np.int64]) -> bool:
    """Whether a column has one value where the others agree, whatever they say, and another where they do not."""
    told = (counts.sum(axis=1) > 1) & (own >= 0)
    counts, own = counts[told], own[told]
    agree = counts.max(axis=1, initial=0) == counts.sum(axis=1)
    if len(own) < _LEAST_ROWS or len(set(own[agree])) != 1 or len(set(own[~agree])) != 1 or own[agree][0] == own[~agree][0]:
        return False
    # A person says what all others say: of rows in which they agree on one label alone nobody can tell.
    said: Any = np.bincount(counts[agree].argmax(axis=1))
    return bool((said > 1).sum() > 1)


def _counts(codes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Votes per row and label."""
    counts = np.zeros((len(codes), max(int(codes.max(initial=0)) + 1, 1)), np.int64)
    for column in codes.T:
        _add(counts, column, 1)
    return counts


def _without(counts: NDArray[np.int64], column: NDArray[np.int64]) -> NDArray[np.int64]:
    """The votes without those of a column."""
    others = counts.copy()
    _add(others, column, -1)
    return others


def _add(counts: NDArray[np.int64], column: NDArray[np.int64], times: int) -> None:
    rows = np.flatnonzero(column >= 0)
    counts[rows, column[rows]] += times
