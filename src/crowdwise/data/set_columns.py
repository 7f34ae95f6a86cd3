"""Sets of labels from text: what every answer chooses and rules out, as codes."""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from crowdwise.data.encode import Where, as_text, encode, missing_mask, tidy, vocabulary_series
from crowdwise.errors import DataWarning, InputError, SettingError

__all__ = ["ABSTAIN", "NEGATIONS", "NONE", "SetCodes", "Spelling", "coded_sets", "one_text_each", "set_text"]

#: Words for an answer that says nothing, for the empty set, and marks before a label that does not apply.
ABSTAIN = ("abstain", "skip", "unsure")
NONE = "none"
NEGATIONS = ("!", "not:")


@dataclass(frozen=True)
class Spelling:
    """How sets are written down; see `LabelSets.from_arrays`."""

    separator: str = "|"
    none: str = NONE
    abstain: Sequence[str] = ABSTAIN
    negations: Sequence[str] = NEGATIONS

    def __post_init__(self) -> None:
        if not self.separator:
            raise SettingError("the separator between labels must not be empty")


class SetCodes(NamedTuple):
    """Answers by (item, annotator) key, ascending, and what they say of single labels."""

    key: NDArray[np.int64]
    complete: NDArray[np.bool_]
    answer: NDArray[np.int64]
    label: NDArray[np.int32]
    chosen: NDArray[np.bool_]
    labels: NDArray[Any]
    n_missing: int


class _Said(NamedTuple):
    """Labels named in the rows: the row, the label and whether it is ruled out."""

    row: NDArray[np.int64]
    label: pl.Series
    ruled_out: NDArray[np.bool_]


def coded_sets(
    table: pl.DataFrame, key: NDArray[np.int64], spelling: Spelling, labels: Sequence[Any] | None, where: Where
) -> SetCodes:
    """Encode the columns `label` and perhaps `shown`; rows with the same `key` are one answer."""
    said, empty_rows = _parsed(table["label"], spelling, where)
    speaking = np.union1d(said.row, empty_rows)
    keys, answer_of_row = np.unique(key[speaking], return_inverse=True)
    position = np.full(len(table), -1, np.int64)
    position[speaking] = answer_of_row
    offered = None if "shown" not in table.columns else _offered(table["shown"], spelling.separator, where, position)
    vocabulary = _vocabulary(said.label if offered is None else pl.concat([said.label, offered[1]]), labels)
    codes = _codes(said.label, vocabulary, where, said.row)
    keep = _unique_entries(position[said.row], codes, ~said.ruled_out, said.row, where, vocabulary)
    answer, label, chosen = position[said.row][keep], codes[keep], ~said.ruled_out[keep]
    clash = np.unique(answer[np.isin(answer, position[empty_rows]) & chosen])
    if len(clash):
        # A box "none" ticked beside others says nothing that the others do not.
        row = int(np.flatnonzero(position == clash[0])[0])
        words = (
            f"{len(clash):,} answers are both {spelling.none!r} and a label, the first in {where.row(row)}; the labels count"
        )
        warnings.warn(words, DataWarning, stacklevel=4)
    complete = np.ones(len(keys), bool)
    complete[answer[~chosen]] = False
    if offered is not None:
        extra = offered[0], _codes(offered[1], vocabulary, where, offered[2])
        complete[np.unique(extra[0])] = False
        answer, label, chosen = _with_offered(answer, label, chosen, extra, len(vocabulary), where, position, vocabulary)
    order = np.lexsort((label, answer))
    entries = answer[order].astype(np.int64), label[order].astype(np.int32), chosen[order]
    return SetCodes(keys, complete, *entries, vocabulary, int(len(table) - len(speaking)))


def _parsed(column: pl.Series, spelling: Spelling, where: Where) -> tuple[_Said, NDArray[np.int64]]:
    """The labels that rows name, and the rows that say "none"."""
    said = _tokens(column, spelling.separator, where)
    silent = [word.lower() for word in spelling.abstain]
    said = said.filter(~(missing_mask(said["token"], ()) | said["token"].str.to_lowercase().is_in(silent)))
    marks = [next((m for m in spelling.negations if token.startswith(m)), "") for token in said["token"]]
    token = pl.Series([t[len(m) :].strip() for t, m in zip(said["token"], marks, strict=True)], dtype=pl.String)
    row, marked = said["row"].to_numpy(), np.array([bool(mark) for mark in marks], bool)
    if (token == "").any():
        at = int(row[int((token == "").arg_true()[0])])
        raise InputError(f"{where.row(at)}: a mark and no label after it; write the label that is ruled out, such as !cat")
    is_none = (token.str.to_lowercase() == spelling.none.lower()).to_numpy() & ~marked
    return _Said(row[~is_none], token.filter(pl.Series(~is_none)), marked[~is_none]), row[is_none]


def set_text(cell: Any) -> str | None:
    """A list of labels as JSON text; anything else as its text."""
    if isinstance(cell, list | tuple | set | frozenset | np.ndarray):
        values = sorted(map(str, cell)) if isinstance(cell, set | frozenset) else [str(value) for value in cell]
        return json.dumps(values, ensure_ascii=False) if values else NONE
    return None if cell is None else str(cell)


def one_text_each(column: Any) -> Any:
    """Lists of labels as JSON text; anything else as it is."""
    if isinstance(column, pl.Series | np.ndarray) and getattr(column, "ndim", 1) == 1 and column.dtype != object:
        return (
            column
            if not isinstance(column, pl.Series) or not column.dtype.is_nested()
            else [set_text(x) for x in column.to_list()]
        )
    cells = list(column)
    if any(isinstance(cell, list | tuple | set | frozenset | np.ndarray) for cell in cells):
        return pl.Series([set_text(cell) for cell in cells], dtype=pl.String)
    return column


def _tokens(column: pl.Series, separator: str, where: Where) -> pl.DataFrame:
    """Every label of every row: row and token, the latter null where a cell is empty."""
    if column.dtype.is_nested():
        column = pl.Series([set_text(cell) for cell in column.to_list()], dtype=pl.String)
    text = as_text(tidy(column)).str.strip_chars()
    parts = text.str.split(separator).to_list()
    for row in text.str.starts_with("[").fill_null(False).arg_true().to_list():
        try:
            parts[row] = [str(value) for value in json.loads(text[row])] or [NONE]
        except ValueError as problem:
            raise InputError(f"{where.row(row)}: {text[row]!r} looks like a JSON list but is not ({problem})") from None
    frame = pl.DataFrame({"row": np.arange(len(text)), "token": pl.Series(parts, dtype=pl.List(pl.String))}).explode("token")
    return frame.with_columns(pl.col("token").str.strip_chars())


def _vocabulary(named: pl.Series, labels: Sequence[Any] | None) -> NDArray[Any]:
    if labels is None:
        return encode(named)[1]
    known = as_text(vocabulary_series(labels, "labels"))
    return np.array([*known.to_list(), None], dtype=object)[:-1]


def _codes(named: pl.Series, vocabulary: NDArray[Any], where: Where, row: NDArray[Any]) -> NDArray[np.int32]:
    place = {name: code for code, name in enumerate(vocabulary.tolist())}
    codes = np.array([place.get(name, -1) for name in named], np.int32)
    if (codes < 0).any():
        first = int(np.flatnonzero(codes < 0)[0])
        raise InputError(f"{where.row(int(row[first]))}: label {named[first]!r} is not among the given labels")
    return codes


def _unique_entries(
    answer: NDArray[Any], code: NDArray[Any], chosen: NDArray[np.bool_], row: NDArray[Any], where: Where, names: NDArray[Any]
) -> NDArray[np.int64]:
    """Positions of the first mention of every label in every answer; chosen and ruled out at once is an error."""
    cell = answer * max(len(names), 1) + code
    _, first, inverse = np.unique(cell, return_index=True, return_inverse=True)
    against = np.flatnonzero(chosen != chosen[first][inverse])
    if len(against):
        e = int(against[0])
        raise InputError(f"{where.row(int(row[e]))}: label {names[code[e]]!r} is both chosen and ruled out in one answer")
    return np.sort(first)


def _offered(
    column: pl.Series, separator: str, where: Where, position: NDArray[np.int64]
) -> tuple[NDArray[np.int64], pl.Series, NDArray[np.int64]]:
    """Labels shown: answer, name and row of each; empty cells mean that all labels were shown."""
    shown = _tokens(column, separator, where)
    shown = shown.filter(~missing_mask(shown["token"], ()))
    row = shown["row"].to_numpy()
    kept = position[row] >= 0
    return position[row[kept]], shown["token"].filter(pl.Series(kept)), row[kept]


def _with_offered(
    answer: NDArray[Any],
    label: NDArray[Any],
    chosen: NDArray[np.bool_],
    extra: tuple[NDArray[Any], NDArray[Any]],
    n_labels: int,
    where: Where,
    position: NDArray[np.int64],
    names: NDArray[Any],
) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.bool_]]:
    """Rule out what was shown and not chosen."""
    cell, offered = answer * n_labels + label, np.unique(extra[0] * n_labels + extra[1])
    strange = np.flatnonzero(np.isin(answer, extra[0]) & ~np.isin(cell, offered))
    if len(strange):
        e = int(strange[0])
        at = int(np.flatnonzero(position == answer[e])[0])
        raise InputError(f"{where.row(at)}: label {names[label[e]]!r} was not among the labels shown")
    refused = np.setdiff1d(offered, cell)
    return (
        np.concatenate([answer, refused // n_labels]),
        np.concatenate([label, refused % n_labels]),
        np.concatenate([chosen, np.zeros(len(refused), bool)]),
    )
