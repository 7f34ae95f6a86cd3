"""What a reader hands over, and how it becomes `Annotations`.

Readers differ in how they find votes; they agree on `Export`. JSON readers fill a `Ballot`, which
keeps every answer of a vote by question and picks the question at the end.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from crowdwise.data.annotations import Annotations
from crowdwise.data.encode import integers, missing_mask, tidy
from crowdwise.errors import DataWarning, InputError, did_you_mean
from crowdwise.io.source import Places, Source, Table

__all__ = ["Ballot", "Export", "Request", "assemble", "choose_question", "column", "single", "tabular"]


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
    """Votes as found: columns item, annotator, label and perhaps weight; gold as item and label."""

    votes: pl.DataFrame
    where: Places
    gold: pl.DataFrame | None = None
    items: pl.Series | None = None
    annotators: pl.Series | None = None


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
    if drop is not None and drop.any():
        label = label.to_frame("x").select(pl.when(pl.lit(drop)).then(None).otherwise(pl.col("x"))).to_series()
        warnings.warn(f"{table.where.source}: {int(drop.sum())} {why} were left out", DataWarning, stacklevel=2)
    columns = {"item": integers(item), "annotator": integers(annotator), "label": label}
    if weight is not None:
        columns["weight"] = weight
    known = None
    if gold is not None:
        # Labels and gold become integers together or not at all, or their classes would differ in type.
        both = integers(pl.concat([label, gold.cast(label.dtype)]))
        columns["label"], gold = both[: len(label)], both[len(label) :]
        known = (
            pl.DataFrame({"item": columns["item"], "label": gold}).filter(~missing_mask(gold, ())).unique(maintain_order=True)
        )
    else:
        columns["label"] = integers(label)
    return Export(pl.DataFrame(columns), table.where, known)


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
        classes = _union([votes["label"], gold["label"]], missing).to_list()
    # Not from_frame: exports know items and annotators without votes, which a frame cannot hold.
    built = Annotations.from_columns(
        votes,
        export.where,
        classes=classes,
        items=items,
        annotators=None if export.annotators is None else export.annotators.to_list(),
        missing=missing,
    )
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
