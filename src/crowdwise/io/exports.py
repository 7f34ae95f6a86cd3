"""What readers are asked for and what they hand over: `Request` in, `Export` out.

Readers differ in how they find votes; they agree on `Export`. JSON readers fill a `Ballot`, which keeps every answer of a vote
by question and picks the question at the end.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from crowdwise.data.encode import integers
from crowdwise.errors import DataWarning, InputError, did_you_mean, listed
from crowdwise.io.advice import adapted
from crowdwise.io.json_text import column, single
from crowdwise.io.source import Places, Source

__all__ = ["Ballot", "Export", "Exports", "Request", "choose_question", "column", "single", "taken_back"]

# What a status says of an answer that was not given in the end.
_UNDONE = {"discarded", "draft", "rejected", "skipped", "deleted", "removed", "ignored", "cancelled", "canceled", "expired"}


def taken_back(answer: Mapping[str, Any]) -> str | None:
    """The status by which an answer does not count, if it has one: discarded, draft, skipped and the like."""
    status = next((answer[key] for key in ("status", "state") if key in answer), None)
    return status if isinstance(status, str) and status.strip().lower() in _UNDONE else None


@dataclass(frozen=True)
class Request:
    """What the caller asked of a reader: the options of `crowdwise.read`, but classes and markers of missing answers.

    `several` says what a cell with several answers is: refused ("distinct": where each label stands once, however many votes it
    has), one class ("keep", and "named" where classes are given), or several labels ("split"). `minus_one` says whether -1 is a
    missing answer, where the user says so by what is missing or by the classes. Readers append to `notes` what they took for
    what.
    """

    item: str | None = None
    annotator: str | None = None
    label: str | None = None
    weight: str | None = None
    question: str | None = None
    predictions: bool = False
    format: str | None = None
    annotators: str | Sequence[str] | None = None
    exclude: str | Sequence[str] | None = None
    header: bool = True
    transposed: bool = False
    workflow_version: str | None = None
    time: str | None = None
    repeats: str = "all"
    fold_case: bool = False
    spelling: Any = None
    several: str = "refuse"
    minus_one: bool | None = None
    notes: list[str] = field(default_factory=list, compare=False)

    def command(self, name: str, *more: str) -> str:
        """The command that reads this file in the same way, with more options."""
        named = ("format", "item", "annotator", "label", "weight", "question", "workflow_version", "spelling")
        given: dict[str, Any] = {f"--{name.replace('_', '-')}": getattr(self, name) for name in named}
        given |= {"--annotator-columns": self.annotators, "--not": self.exclude}
        wanted: dict[str, list[str] | bool] = {option: _listed(value) for option, value in given.items()}
        wanted |= {"--fold-case": self.fold_case, "--no-header": not self.header, "--transposed": self.transposed}
        return adapted(name, wanted, *more)


def _listed(value: Any) -> list[str]:
    if value is None:
        return []
    return list(map(str, value)) if isinstance(value, Sequence) and not isinstance(value, str) else [str(value)]


@dataclass(frozen=True)
class Export:
    """Votes as found: columns item, annotator, label and perhaps weight; gold as item and label.

    `n_left_out` rows lost their label for a reason that was said; they are not missing labels. `empty` says which rows were
    answered with an empty list. Votes may have a column of times. Anonymous votes have an annotator each. `standing_for` says
    how many votes a row is, where rows are the distinct labels of many.
    """

    votes: pl.DataFrame
    where: Places
    gold: pl.DataFrame | None = None
    items: pl.Series | None = None
    annotators: pl.Series | None = None
    n_left_out: int = 0
    empty: pl.Series | None = None
    anonymous: bool = False
    standing_for: pl.Series | None = None


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
    left_out: list[str] = field(default_factory=list)

    def vote(self, row: int, item: Any, annotator: Any, answers: Mapping[str, Any]) -> None:
        """Add a vote; without answers it counts as missing and keeps its item."""
        for role, name in (("item", item), ("annotator", annotator)):
            if isinstance(name, dict | list):
                where = f"{self.source.name} {self.source.unit} {row}"
                raise InputError(f"{where}: the {role} {name!r:.60} is no id; name a field that holds one with --{role}")
        self.votes.append((row, item, annotator, answers))

    def skip(self, row: int, item: Any, annotator: Any, status: str) -> None:
        """Leave out a vote that its status takes back; item and annotator stay."""
        self.left_out.append(status)
        self.vote(row, item, annotator, {})

    def gold(self, row: int, item: Any, answers: Mapping[str, Any]) -> None:
        """Add a known true answer."""
        self.golden.append((row, item, answers))

    def known(self, row: int, item: Any, entry: Mapping[str, Any]) -> None:
        """Add what an entry says to be true, in a field called `gold`."""
        if isinstance(entry.get("gold"), str | int | float):
            self.gold(row, item, {"label": entry["gold"]})

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
        if self.left_out:
            why = listed(map(repr, dict.fromkeys(self.left_out)), 4)
            text = f"{self.source.name}: {len(self.left_out)} answers whose status is {why} were left out"
            warnings.warn(text, DataWarning, stacklevel=2)
        return Export(
            pl.DataFrame({"item": ids[:cut], "annotator": annotators, "label": labels[:cut]}),
            places,
            pl.DataFrame({"item": ids[cut:end], "label": labels[cut:]}) if self.golden else None,
            ids[end:] if self.items else None,
            n_left_out=len(self.left_out),
            empty=pl.Series([answer.get(question) == [] for _, _, _, answer in self.votes], dtype=pl.Boolean),
        )


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
        f"{name}: several questions: {listed}. Pick one, for example: {adapted(name, {}, '--question', found[0])} "
        "(question=... in Python)"
    )
