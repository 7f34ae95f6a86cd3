"""Several labels per item: which of the labels annotators chose, and which they ruled out.

The counterpart of `Annotations`: an immutable list of answers as integer codes, with the vocabularies of items, annotators
and labels.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from crowdwise.data.coding import id_codes
from crowdwise.data.encode import (
    Where,
    as_text,
    encode,
    find_column,
    missing_mask,
    series_of,
    tidy,
    to_polars,
    vocabulary_series,
)
from crowdwise.data.frozen import Answers
from crowdwise.data.storable import storable, within
from crowdwise.errors import InputError, SettingError

if TYPE_CHECKING:
    from os import PathLike

    from crowdwise.io.source import Table

__all__ = ["ABSTAIN", "NEGATIONS", "NONE", "LabelSets"]

#: Words for an answer that says nothing, for the empty set, and marks before a label that does not apply.
ABSTAIN = ("abstain", "skip", "unsure")
NONE = "none"
NEGATIONS = ("!", "not:")


@storable
@dataclass(frozen=True, eq=False, repr=False)
class LabelSets(Answers):
    """Sets of labels, chosen by many annotators.

    An answer is what one annotator said of one item. A complete answer rules out every label that it does not choose. One
    with a label ruled out by name (``!cat``), or given beside the labels that were shown, says nothing of the rest.

    Attributes
    ----------
    item, annotator : [E]
        Codes of every answer.
    complete : [E]
        Whether labels that were not chosen are ruled out.
    answer, label, chosen : [M]
        What answers say of single labels: which answer, which label, chosen or ruled out.
    items, annotators, labels
        Vocabularies, sorted unless the caller gave an order.
    n_missing
        Rows dropped on entry because they said nothing.

    Examples
    --------
    >>> LabelSets.from_arrays(["x", "x", "y"], ["ann", "bob", "ann"], ["cat|dog", "cat", "none"])
    LabelSets(3 answers: 2 items, 2 annotators, 2 labels)
    """

    item: NDArray[np.int32]
    annotator: NDArray[np.int32]
    complete: NDArray[np.bool_]
    answer: NDArray[np.int64]
    label: NDArray[np.int32]
    chosen: NDArray[np.bool_]
    items: NDArray[Any]
    annotators: NDArray[Any]
    labels: NDArray[Any]
    n_missing: int = 0

    def sound(self) -> bool:
        """Whether the arrays of saved answers agree with each other."""
        return (
            self.item.shape == self.annotator.shape == self.complete.shape
            and self.answer.shape == self.label.shape == self.chosen.shape
            and within(self.item, 0, self.n_items)
            and within(self.annotator, 0, self.n_annotators)
            and within(self.answer, 0, self.n_votes)
            and within(self.label, 0, self.n_labels)
        )

    @property
    def n_votes(self) -> int:
        """Number of answers, E."""
        return len(self.item)

    @property
    def n_labels(self) -> int:
        """Number of labels, K."""
        return len(self.labels)

    @cached_property
    def votes_per_item(self) -> NDArray[np.int64]:
        """[N]."""
        return np.bincount(self.item, minlength=self.n_items)

    @cached_property
    def votes_per_annotator(self) -> NDArray[np.int64]:
        """[A]."""
        return np.bincount(self.annotator, minlength=self.n_annotators)

    def __len__(self) -> int:
        return self.n_votes

    def __repr__(self) -> str:
        dropped = f"; {self.n_missing} missing answers dropped" if self.n_missing else ""
        sizes = f"{self.n_items} items, {self.n_annotators} annotators, {self.n_labels} labels"
        return f"LabelSets({self.n_votes} answers: {sizes}{dropped})"

    # -- constructors --------------------------------------------------------------------------

    @classmethod
    def read(
        cls,
        path: str | PathLike[str],
        *,
        item: str | None = None,
        annotator: str | None = None,
        label: str | None = None,
        shown: str | None = None,
        **how: Any,
    ) -> LabelSets:
        """Read a table (CSV, TSV, JSONL, JSON, Parquet, Arrow; gzip'd too): a row per answer, or per chosen label.

        Columns not named are found among the usual names (item, annotator, label, ...). `shown` names a column of the
        labels that were shown, in the same form. For `how` see `from_arrays`. In JSON, labels may be a list.
        """
        roles = {"item": item, "annotator": annotator, "label": label}
        table = _read(path, roles | ({} if shown is None else {"shown": shown}))
        return cls.from_columns(table.frame, table.where, **how)

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        item: str | None = None,
        annotator: str | None = None,
        label: str | None = None,
        shown: str | None = None,
        **how: Any,
    ) -> LabelSets:
        """Build from a pandas, polars or Arrow frame; see `read`."""
        where, table = Where("the frame"), to_polars(frame)
        asked = {"item": item, "annotator": annotator, "label": label}
        names = {role: find_column(table, role, given, where) for role, given in asked.items()}
        if shown is not None:
            names["shown"] = find_column(table, "label", shown, where)
        return cls.from_columns(pl.DataFrame({role: table[name] for role, name in names.items()}), where, **how)

    @classmethod
    def from_arrays(
        cls,
        item: Any,
        annotator: Any,
        label: Any,
        *,
        shown: Any = None,
        separator: str = "|",
        none: str = NONE,
        abstain: Sequence[str] = ABSTAIN,
        negations: Sequence[str] = NEGATIONS,
        labels: Sequence[Any] | None = None,
        items: Sequence[Any] | None = None,
    ) -> LabelSets:
        """Build from columns of equal length, a row per answer or per chosen label.

        Parameters
        ----------
        label : sequence
            Texts with labels between separators (``cat|dog``), lists of labels, or one label each. Rows of the same
            item and annotator are one answer.
        shown : sequence, optional
            The labels shown, in the same form; without it, all of them were.
        separator, none : str
            Between labels, and the word for the empty set.
        abstain : sequence of str
            Answers that say nothing, as empty cells do. They are dropped.
        negations : sequence of str
            Marks before a label that does not apply, where nothing is said of the others.
        labels, items : sequence, optional
            All of them, in order.
        """
        columns = {"item": item, "annotator": annotator, "label": _one_text_each(label)}
        if shown is not None:
            columns["shown"] = _one_text_each(shown)
        how: dict[str, Any] = {"separator": separator, "none": none, "abstain": abstain, "negations": negations}
        return cls.from_columns(to_polars(columns), Where("the answers"), labels=labels, items=items, **how)

    @classmethod
    def from_columns(
        cls,
        table: pl.DataFrame,
        where: Where,
        *,
        separator: str = "|",
        none: str = NONE,
        abstain: Sequence[str] = ABSTAIN,
        negations: Sequence[str] = NEGATIONS,
        labels: Sequence[Any] | None = None,
        items: Sequence[Any] | None = None,
    ) -> LabelSets:
        if not separator:
            raise SettingError("the separator between labels must not be empty")
        item_of_row, item_ids = id_codes(table["item"], items, "item", where)
        annotator_of_row, annotator_ids = id_codes(table["annotator"], None, "annotator", where)
        said = _tokens(table["label"], separator, where)
        quiet = missing_mask(said["token"], ()) | said["token"].str.to_lowercase().is_in([word.lower() for word in abstain])
        said = said.filter(~quiet)
        key = item_of_row.astype(np.int64) * max(len(annotator_ids), 1) + annotator_of_row
        pairs, answer_of_row = np.unique(key[said["row"].unique(maintain_order=True).to_numpy()], return_inverse=True)
        position = np.full(len(table), -1, np.int64)
        position[said["row"].unique(maintain_order=True).to_numpy()] = answer_of_row
        marked = pl.Series(
            [next((m for m in negations if token.startswith(m)), "") for token in said["token"]], dtype=pl.String
        )
        token = pl.Series([t[len(m) :].strip() for t, m in zip(said["token"], marked, strict=True)], dtype=pl.String)
        if (token == "").any():
            at = int(said["row"][int((token == "").arg_true()[0])])
            raise InputError(f"{where.row(at)}: a mark and no label after it; write the label that is ruled out, such as !cat")
        is_none = ((token.str.to_lowercase() == none.lower()) & (marked == "")).to_numpy()
        row = said["row"].to_numpy()
        named = token.filter(pl.Series(~is_none))
        denied_by_name = (marked != "").to_numpy()[~is_none]
        entry = (position[row[~is_none]], row[~is_none])
        offered = None if "shown" not in table.columns else _offered(table["shown"], separator, where, position)
        vocabulary = _vocabulary(named if offered is None else pl.concat([named, offered[1]]), labels)
        codes = _codes(named, vocabulary, where, entry[1])
        keep = _unique_entries(entry[0], codes, ~denied_by_name, entry[1], where, vocabulary)
        answer, label, chosen = entry[0][keep], codes[keep], ~denied_by_name[keep]
        empty = np.unique(position[row[is_none]])
        clash = np.isin(answer, empty) & chosen
        if clash.any():
            at = int(entry[1][keep][np.flatnonzero(clash)[0]])
            raise InputError(f"{where.row(at)}: the answer is both {none!r} and a label; remove one of them")
        complete = np.ones(len(pairs), bool)
        complete[answer[~chosen]] = False
        if offered is not None:
            extra = offered[0], _codes(offered[1], vocabulary, where, offered[2])
            complete[np.unique(extra[0])] = False
            answer, label, chosen = _with_offered(answer, label, chosen, extra, len(vocabulary), where, position, vocabulary)
        order = np.lexsort((label, answer))
        n_people = max(len(annotator_ids), 1)
        return cls(
            (pairs // n_people).astype(np.int32),
            (pairs % n_people).astype(np.int32),
            complete,
            answer[order].astype(np.int64),
            label[order].astype(np.int32),
            chosen[order],
            item_ids,
            annotator_ids,
            vocabulary,
            int(len(table) - len(np.unique(row))),
        )

    # -- as tables -----------------------------------------------------------------------------

    def to_frame(self, separator: str = "|") -> pl.DataFrame:
        """One row per answer: item, annotator and label, in the form that `read` takes."""
        names = np.array([str(name) for name in self.labels], dtype=object)
        texts: list[list[str]] = [[] for _ in range(self.n_votes)]
        for answer, label, chosen in zip(self.answer, self.label, self.chosen, strict=True):
            texts[answer].append(f"{'' if chosen else NEGATIONS[0]}{names[label]}")
        columns = {"item": series_of(self.items)[self.item], "annotator": series_of(self.annotators)[self.annotator]}
        # Names that would be taken for something else are kept apart by JSON.
        plain = not any(separator in name or name.startswith("[") for name in names)
        join = separator.join if plain else partial(json.dumps, ensure_ascii=False)
        return pl.DataFrame({**columns, "label": [join(text) if text else NONE for text in texts]})

    def binary(self, label: int) -> Any:
        """What is said of one label, as `Annotations` of the classes 0 and 1 with all items and annotators."""
        from crowdwise.data.annotations import Annotations

        value = np.where(self.complete, 0, -1)
        here = self.label == label
        value[self.answer[here]] = self.chosen[here]
        told = np.flatnonzero(value >= 0)
        vocabularies = {"items": range(self.n_items), "annotators": range(self.n_annotators), "classes": [0, 1]}
        return Annotations.from_arrays(self.item[told], self.annotator[told], value[told], **vocabularies)


def _read(path: Any, roles: dict[str, str | None]) -> Table:
    """Columns by role; lists of JSON records as JSON text."""
    from crowdwise.io.roles import read_roles
    from crowdwise.io.source import Table, open_source
    from crowdwise.io.tables import column_names, read_columns

    shown = roles.get("shown")
    source = open_source(path)
    if source.kind not in ("json", "jsonl"):
        return read_roles(path, {role: name for role, name in roles.items() if role != "shown"}, {"shown": shown})
    known = pl.DataFrame(schema=dict.fromkeys(column_names(source), pl.String))
    where = Where(source.name)
    wanted = {role: find_column(known, "label" if role == "shown" else role, name, where) for role, name in roles.items()}
    table = read_columns(source, [wanted["item"], wanted["annotator"]])
    frame = table.frame.rename({wanted[role]: role for role in ("item", "annotator")})
    for role in wanted:
        if role not in frame.columns:
            cells = [record.get(wanted[role]) for _, record in source.records]
            frame = frame.with_columns(pl.Series(role, [_text(cell) for cell in cells], dtype=pl.String))
    return Table(frame, table.where)


def _text(cell: Any) -> str | None:
    if isinstance(cell, list | tuple | set | frozenset | np.ndarray):
        values = sorted(map(str, cell)) if isinstance(cell, set | frozenset) else [str(value) for value in cell]
        return json.dumps(values, ensure_ascii=False) if values else NONE
    return None if cell is None else str(cell)


def _one_text_each(column: Any) -> Any:
    """Lists of labels as JSON text; anything else as it is."""
    if isinstance(column, pl.Series | np.ndarray) and getattr(column, "ndim", 1) == 1 and column.dtype != object:
        return (
            column
            if not isinstance(column, pl.Series) or not column.dtype.is_nested()
            else [_text(x) for x in column.to_list()]
        )
    cells = list(column)
    if any(isinstance(cell, list | tuple | set | frozenset | np.ndarray) for cell in cells):
        return pl.Series([_text(cell) for cell in cells], dtype=pl.String)
    return column


def _tokens(column: pl.Series, separator: str, where: Where) -> pl.DataFrame:
    """Every label of every row: row and token, the latter null where a cell is empty."""
    if column.dtype.is_nested():
        column = pl.Series([_text(cell) for cell in column.to_list()], dtype=pl.String)
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
