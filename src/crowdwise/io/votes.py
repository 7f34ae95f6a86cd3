"""Votes as files hold them: what every reader hands over, how it becomes `Annotations`, and the readers of tables and matrices.

Readers differ in how they find votes; they agree on `Export`. JSON readers fill a `Ballot`, which keeps every answer of a vote
by question and picks the question at the end.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from crowdwise.data.annotations import Annotations
from crowdwise.data.encode import ALIASES, INTEGER, as_text, find_column, integers, missing_mask, tidy
from crowdwise.errors import DataWarning, InputError, did_you_mean
from crowdwise.io.source import Places, Source, Table

__all__ = ["Ballot", "Export", "Exports", "Request", "assemble", "choose_question", "column", "column_names", "looks_wide"]
__all__ += ["read_answers", "read_columns", "read_tidy", "read_wide", "single", "tabular"]


@dataclass(frozen=True)
class Request:
    """What the caller asked of a reader: column names, the question, and whether models vote."""

    item: str | None = None
    annotator: str | None = None
    label: str | None = None
    weight: str | None = None
    question: str | None = None
    predictions: bool = False


@dataclass(frozen=True)
class Export:
    """Votes as found: columns item, annotator, label and perhaps weight; gold as item and label.

    `n_left_out` rows lost their label for a reason that was said; they are not missing labels.
    """

    votes: pl.DataFrame
    where: Places
    gold: pl.DataFrame | None = None
    items: pl.Series | None = None
    annotators: pl.Series | None = None
    n_left_out: int = 0


class Exports(NamedTuple):
    """What knows the platforms, for readers of other kinds of answers: which one a source is of, and the votes of one."""

    recognised: Callable[[Source], Any]
    read: Callable[[Source, str, Request], Export]


@dataclass
class Ballot:
    """Collects the votes and gold answers of a JSON export, each with all its answers by question.

    With `untyped`, ids and labels arrive as text whatever they were, so plain integers are restored.
    """

    source: Source
    untyped: bool = False
    votes: list[tuple[int, Any, Any, Mapping[str, Any]]] = field(default_factory=list)
    golden: list[tuple[int, Any, Mapping[str, Any]]] = field(default_factory=list)
    items: list[Any] = field(default_factory=list)

    def vote(self, row: int, item: Any, annotator: Any, answers: Mapping[str, Any]) -> None:
        """Add a vote; without answers it counts as missing and keeps its item."""
        self.votes.append((row, item, annotator, answers))

    def gold(self, row: int, item: Any, answers: Mapping[str, Any]) -> None:
        """Add a known true answer."""
        self.golden.append((row, item, answers))

    def item(self, item: Any) -> None:
        """Keep an item even if nobody voted on it."""
        self.items.append(item)

    def export(self, wanted: str | None) -> Export:
        """Pick the question and return its votes."""
        answers = [(row, answer) for row, _, _, answer in self.votes] + [(row, answer) for row, _, answer in self.golden]
        found = list(dict.fromkeys(question for _, answer in answers for question in answer))
        question = choose_question(found, wanted, self.source.name) if found or wanted is not None else ""

        places = Places(self.source.name, rows=np.array([row for row, *_ in self.votes], np.int64), unit=self.source.unit)
        labels = column(
            [single(answer.get(question), f"{places.source} {places.unit} {row}") for row, answer in answers], places
        )
        ids = column([entry[1] for entry in (*self.votes, *self.golden)] + self.items, places)
        annotators = column([annotator for _, _, annotator, _ in self.votes], places)
        if self.untyped:
            ids, annotators, labels = integers(ids), integers(annotators), integers(labels)
        cut, end = len(self.votes), len(answers)
        return Export(
            pl.DataFrame({"item": ids[:cut], "annotator": annotators, "label": labels[:cut]}),
            places,
            pl.DataFrame({"item": ids[cut:end], "label": labels[cut:]}) if self.golden else None,
            ids[end:] if self.items else None,
        )


def tabular(
    table: Table,
    item: pl.Series,
    annotator: pl.Series,
    label: pl.Series,
    *,
    weight: pl.Series | None = None,
    gold: pl.Series | None = None,
    drop: pl.Series | None = None,
    why: str = "",
) -> Export:
    """Make an export of columns of text; rows in `drop` lose their label, are counted and warned about."""
    n_left_out = 0 if drop is None else int(drop.sum())
    if n_left_out:
        label = label.to_frame("x").select(pl.when(pl.lit(drop)).then(None).otherwise(pl.col("x"))).to_series()
        warnings.warn(f"{table.where.source}: {n_left_out} {why} were left out", DataWarning, stacklevel=2)
    columns = {"item": integers(item), "annotator": integers(annotator), "label": label}
    if weight is not None:
        columns["weight"] = weight
    known = None
    if gold is not None:
        # Labels and gold become integers together or not at all, or their classes would differ in type.
        both = integers(pl.concat([label, gold.cast(label.dtype)]))
        columns["label"], gold = both[: len(label)], both[len(label) :]
        known = _known(columns["item"], gold)
    else:
        columns["label"] = integers(label)
    return Export(pl.DataFrame(columns), table.where, known, n_left_out=n_left_out)


def _known(item: pl.Series, gold: pl.Series) -> pl.DataFrame:
    """Items whose true label is there, each once."""
    return pl.DataFrame({"item": item, "label": gold}).filter(~missing_mask(gold, ())).unique(maintain_order=True)


def assemble(export: Export, *, classes: Sequence[Any] | None, missing: Iterable[Any]) -> Annotations:
    """Build `Annotations`: items without votes and classes that occur only in gold are kept."""
    votes, gold = export.votes, export.gold
    # One text is one marker, not a list of letters.
    missing = (missing,) if isinstance(missing, str) else tuple(missing)
    items: list[Any] | None = None
    extra = [part for part in (export.items, None if gold is None else gold["item"]) if part is not None and len(part)]
    if extra:
        items = _union([votes["item"], *extra], ()).to_list()
    if gold is not None and len(gold) and classes is None:
        classes = _union([votes["label"], gold["label"]], missing).to_list() or None
    # Not from_frame: exports know items and annotators without votes, which a frame cannot hold.
    built = Annotations.from_columns(
        votes,
        export.where,
        classes=classes,
        items=items,
        annotators=None if export.annotators is None else export.annotators.to_list(),
        missing=missing,
    )
    built = replace(built, n_missing=built.n_missing - export.n_left_out)
    if gold is None or not len(gold):
        return built
    try:
        return built.with_gold(gold)
    except InputError as error:
        raise InputError(f"{export.where.source}: {error}") from None


def choose_question(found: Sequence[str], wanted: str | None, name: str) -> str:
    """Return the question to read; several and no choice is one error that lists them."""
    listed = ", ".join(map(repr, found)) or "none"
    if wanted is not None:
        if wanted in found:
            return wanted
        raise InputError(f"{name}: no question {wanted!r}; found {listed}{did_you_mean(wanted, list(found))}")
    if len(found) == 1:
        return found[0]
    if not found:
        raise InputError(f"{name}: no answers found; name the column with label=... or --label")
    raise InputError(
        f"{name}: several questions: {listed}. Pick one: question=... in Python, --question NAME on the command line"
    )


def single(value: Any, place: str) -> Any:
    """Return the one label of an answer, None if it is empty; refuse several."""
    if isinstance(value, list):
        if len(value) > 1:
            raise InputError(
                f"{place}: several labels in one answer, {value!r:.80}; a vote has one label here (several-label support is "
                "not there yet). Keep one label per answer, or export one yes/no question per label"
            )
        return single(value[0], place) if value else None
    if isinstance(value, dict):
        raise InputError(
            f"{place}: the answer {value!r:.80} is a region or a form, not one label; name a question with question=..."
        )
    return value


def column(values: Sequence[Any], where: Places) -> pl.Series:
    """Make a series of JSON values: integers, booleans or floats if all are, else text."""
    kinds = {type(value) for value in values} - {type(None)}
    try:
        if kinds == {int} and all(abs(value) < 2**63 for value in values if value is not None):
            return pl.Series(values, dtype=pl.Int64)
        if kinds == {bool}:
            return pl.Series(values, dtype=pl.Boolean)
        if kinds and kinds <= {int, float}:
            return tidy(pl.Series(values, dtype=pl.Float64, strict=False))
        return pl.Series([None if value is None else str(value) for value in values], dtype=pl.String)
    except UnicodeEncodeError:
        raise InputError(
            f"{where.source}: half of a surrogate pair (\\ud800 to \\udfff) in an id or a label; correct that character"
        ) from None


def _union(parts: list[pl.Series], missing: Sequence[Any]) -> pl.Series:
    parts = [tidy(part) for part in parts]
    parts = [part.filter(~missing_mask(part, missing)) for part in parts]
    if len({part.dtype for part in parts}) > 1:
        parts = [part.cast(pl.String) for part in parts]
    union = pl.concat(parts).unique()
    # Integers that shared a column with text markers ("?") are integers again, as in `Annotations`.
    return (integers(union) if missing else union).sort()


# -- tables: a row per vote, in delimited text, JSON, Parquet or Arrow --------------------------


def read_tidy(source: Source, request: Request) -> Export:
    """Read item, annotator, label and, where named, weight; a column called `gold` becomes gold.

    Columns that were not named are found by the usual aliases. Only the needed ones are read from
    Parquet and Arrow.
    """
    if source.kind == "folder":
        raise InputError(f"{source.name}: a folder without a platform's export in it; name a file")
    if source.kind == "matrix":
        raise InputError(
            f"{source.name}: a matrix of numbers without a header; if it is items x annotators, use format='answers'"
        )
    known = pl.DataFrame(schema=dict.fromkeys(column_names(source), pl.String))
    where = Places(source.name)
    wanted = {
        "item": find_column(known, "item", request.item, where),
        "annotator": find_column(known, "annotator", request.annotator, where),
        "label": find_column(known, "label", request.label or request.question, where),
    }
    if len(set(wanted.values())) < 3:
        raise InputError(
            f"{source.name}: item, annotator and label must be three different columns, got {list(wanted.values())}"
        )
    if request.weight is not None:
        wanted["weight"] = find_column(known, "weight", request.weight, where)
    if "gold" in known.columns and "gold" not in wanted.values():
        wanted["gold"] = "gold"
    table = read_columns(source, list(dict.fromkeys(wanted.values())))
    columns = {role: table.frame[name] for role, name in wanted.items()}
    gold = columns.pop("gold", None)
    if source.kind == "delimited":
        return tabular(
            table, *(columns[role] for role in ("item", "annotator", "label")), weight=columns.get("weight"), gold=gold
        )
    return Export(pl.DataFrame(columns), table.where, None if gold is None else _known(columns["item"], gold))


def read_columns(source: Source, names: list[str]) -> Table:
    """Return these columns of a table of any kind; text from delimited files, values from the others."""
    if source.kind not in ("json", "jsonl"):
        return source.table(names)
    rows = np.array([row for row, _ in source.records], np.int64)
    where = Places(source.name, rows=rows, unit=source.unit)

    def values(name: str) -> list[Any]:
        cells = [record.get(name) for _, record in source.records]
        return [single(cell, where.row(i)) if isinstance(cell, list | dict) else cell for i, cell in enumerate(cells)]

    return Table(pl.DataFrame({name: column(values(name), where) for name in names}), where)


def column_names(source: Source) -> list[str]:
    """Return the columns of a table, or the keys of its records."""
    if source.kind not in ("json", "jsonl"):
        return source.columns
    if not source.records:
        raise InputError(f"{source.name}: no records; expected one object per vote")
    return list(dict.fromkeys(name for _, record in source.records for name in record))


# -- matrices, items x annotators: wide tables with names, and bare `answers.txt` files ---------

_NUMBERED = re.compile(
    r"(annotator|worker|rater|coder|judge|user|labell?er|expert|person|crowd|[arwcju])[ _.-]?\d+", re.IGNORECASE
)


def looks_wide(source: Source) -> bool:
    """Say whether a delimited file is clearly wide: an item column, then annotators.

    Clearly means that the other columns are numbered annotators, or that at least three of them
    are sparse and share a few labels; no column may play another role of a tidy table.
    """
    if source.kind != "delimited" or len(source.columns) < 3:
        return False
    plain = ["".join(c for c in name.lower() if c.isalnum()) for name in source.columns]
    if any(name in (*ALIASES["annotator"], *ALIASES["label"]) for name in plain):
        return False
    if plain[0] not in ("", "id", "index", *ALIASES["item"]):
        return False
    if all(_NUMBERED.fullmatch(name.strip()) for name in source.columns[1:]):
        return True
    cells = source.table(source.columns).frame[:, 1:]
    absent = sum(int((cells[name].is_null() | (cells[name] == "-1").fill_null(False)).sum()) for name in cells.columns)
    labels = {label for name in cells.columns for label in cells[name].drop_nulls().unique().to_list()}
    return cells.width >= 3 and absent >= 0.2 * cells.height * cells.width and len(labels) <= min(50, max(3, cells.height // 2))


def read_wide(source: Source, item: str | None = None) -> Export:
    """Read a table with a row per item and a column per annotator; empty cells are absent votes.

    Where no cell is empty and the other labels are two or more integers from 0 up, -1 means absent
    (Snorkel, CrowdLayer). Votes of 1 and -1 stay what they are.
    """
    if source.kind not in ("delimited", "parquet", "arrow"):
        raise InputError(f"{source.name}: a wide table is CSV, TSV, Parquet or Arrow, not {source.kind}")
    table = source.table(source.columns)
    item = item or source.columns[0]
    if item not in source.columns:
        raise InputError(f"{source.name}: no column {item!r}; found {', '.join(map(repr, source.columns))}")
    frame = table.frame.with_columns(integers(table.frame[item]))
    repeated = frame[item].is_duplicated()
    if repeated.any():
        row = int(repeated.arg_true()[-1])
        raise InputError(f"{table.where.row(row)}: item {frame[item][row]!r} occurs twice; a wide table has one row per item")
    annotators = [name for name in frame.columns if name != item]
    if not annotators:
        raise InputError(f"{source.name}: one column; a wide table has the item and a column per annotator")
    label = pl.concat([as_text(frame[name]).alias("label") for name in annotators]).replace("", None)
    if label.null_count() == 0:
        others = label.filter(label != "-1").unique()
        if len(others) > 1 and others.str.contains(INTEGER).all() and not others.str.starts_with("-").any():
            label = label.replace("-1", None)
    present = np.flatnonzero(label.is_not_null().to_numpy())
    # Column after column: vote e stands in row e mod N of annotator e div N.
    a, n = np.divmod(present, frame.height)
    names = integers(pl.Series(annotators))
    votes = pl.DataFrame({"item": frame[item][n], "annotator": names[a], "label": integers(label[present])})
    where = Places(source.name, rows=n + table.where.first_row if table.where.rows is None else table.where.rows[n])
    return Export(votes, where, items=frame[item], annotators=names.sort())


def read_answers(source: Source) -> Export:
    """Read a whitespace matrix of labels with -1 where there is none; ids are positions from 0."""
    lines = [line.split() for line in source.data.decode().splitlines()]
    filled = [(row, cells) for row, cells in enumerate(lines, start=1) if cells]
    width = len(filled[0][1])
    for row, cells in filled:
        if len(cells) != width:
            raise InputError(f"{source.name} row {row}: {len(cells)} numbers where row {filled[0][0]} has {width}")
    flat = pl.Series([cell for _, cells in filled for cell in cells]).cast(pl.Float64, strict=False)
    if flat.null_count():
        bad = int(flat.is_null().arg_true()[0])
        row, cells = filled[bad // width]
        raise InputError(
            f"{source.name} row {row}: {cells[bad % width]!r} is not a number; answers files hold class numbers and -1"
        )
    matrix = flat.to_numpy().reshape(len(filled), width)
    n, a = np.nonzero((matrix != -1) & ~np.isnan(matrix))
    where = Places(source.name, rows=np.array([row for row, _ in filled], np.int64)[n])
    return Export(
        pl.DataFrame({"item": n, "annotator": a, "label": matrix[n, a]}),
        where,
        items=pl.Series(np.arange(len(filled))),
        annotators=pl.Series(np.arange(width)),
    )
