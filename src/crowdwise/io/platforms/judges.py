"""Votes of language models (or people) as judges: JSONL, one vote per line or several below an item."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from crowdwise.errors import InputError
from crowdwise.io.exports import taken_back
from crowdwise.io.object_cells import holds_field, read_field
from crowdwise.io.roles import battle_shape
from crowdwise.io.source import Record, Source
from crowdwise.io.tallies import refuse_mapped_counts
from crowdwise.io.votes import Ballot, Export, Request

# In order of preference: a file may hold a verdict and the score that led to it.
_ITEM = ("item", "item_id", "id", "example_id", "sample_id", "prompt_id", "question_id", "task_id", "uid", "key")
_JUDGE: tuple[str, ...] = (
    "judge",
    "judge_id",
    "judge_name",
    "judge_model",
    "annotator",
    "rater",
    "grader",
    "grader_model",
    "evaluator",
)
_JUDGE += ("model", "model_id", "model_name", "name")
_NAMED = ("judge", "grader", "evaluator")
_LABEL = (
    "label",
    "verdict",
    "winner",
    "decision",
    "judgment",
    "judgement",
    "preference",
    "choice",
    "answer",
    "vote",
    "rating",
    "score",
    "passed",
    "grade",
)
_LISTS = ("judgments", "judgements", "verdicts", "votes", "judges", "ratings")
# Scores by judge, or by criterion: read where the format is named.
_ASKED = (*_LISTS, "scores")


def matches(source: Source) -> bool:
    """Recognise an item with a list of judgments, or a line with item, judge and verdict."""
    if source.kind not in ("json", "jsonl") or _key(source.first, _ITEM) is None:
        return False
    if battle_shape(list(source.first)) is not None:
        # Which of two models won says nothing about a question: another row may compare others.
        return False
    nested = _key(source.first, _LISTS)
    if nested is not None:
        held = source.first[nested]
        # A list of labels is one judge's, asked several times; where nobody is named, they are votes of unknown people.
        said = isinstance(held, list) and any(not isinstance(part, dict) for part in held)
        return isinstance(held, list | dict) and (not said or _key(source.first, _JUDGE) is not None)
    is_judge = any(name in source.first for name in _JUDGE if name.startswith((*_NAMED, "model")))
    return is_judge and _key(source.first, _LABEL) is not None


def read(source: Source, request: Request) -> Export:
    """Return the votes; `question` names the field to read where there are several, also of verdicts that are objects."""
    _refuse_several_judged(source)
    if request.format is None:
        _refuse_row_per_class(source, request)
    asked = [name for name in (request.question, request.label) if name]
    export = _votes(source, request, asked or _LABEL)
    if asked and export.votes["label"].null_count() == export.votes.height:
        verdicts = _votes(source, request, _LABEL)
        export = verdicts if holds_field(verdicts.votes["label"], asked[0]) else export
    label = export.votes["label"]
    if label.dtype == pl.String and label.str.contains("{", literal=True).any():
        return replace(export, votes=export.votes.with_columns(label=read_field(label, export.where, request)))
    return export


def _votes(source: Source, request: Request, labels: Sequence[str]) -> Export:
    """The votes, whose labels are in the first of these fields that a record has."""
    ballot, maybe_counts = Ballot(source), False
    parts = _parts(source.first)
    lists = _LISTS if _key(source.first, _JUDGE) is not None else _ASKED
    for row, record in source.walk():
        item = record.get(_key(record, _ITEM) or "")
        nested = record.get(_key(record, lists) or "")
        if isinstance(nested, dict):
            maybe_counts = maybe_counts or any(type(label) is int and label > 1 for label in nested.values())
            nested = [{"judge": judge, "label": label} if not isinstance(label, dict) else {"judge": judge} | label
                      for judge, label in nested.items()]  # fmt: skip
        if nested is not None:
            ballot.item(item)
        if "gold" not in labels:
            ballot.known(row, item, record)
        judge = _name(record.get(_key(record, _JUDGE) or ""), parts)
        for vote in nested if isinstance(nested, list) else [record]:
            if not isinstance(vote, dict) and judge is not None:
                ballot.vote(row, item, judge, {"label": vote})
            if isinstance(vote, dict):
                judge = _name(vote.get(_key(vote, _JUDGE) or ""), parts)
                if nested is not None and (status := taken_back(vote)) is not None:
                    ballot.skip(row, item, judge, status)
                    continue
                ballot.vote(row, item, judge, {"label": _scalar(vote.get(_key(vote, labels) or ""))})
    if maybe_counts and request.format is None:
        held = [record.get(_key(record, lists) or "") for _, record in source.records]
        refuse_mapped_counts(held, _key(source.first, lists) or "", source.name, request, "judges")
    if maybe_counts:
        request.notes.append(f"{source.name}: read as {{judge: label}}; if these are counts per class, add --format counts")
    return ballot.export(None)


def _refuse_several_judged(source: Source) -> None:
    """Refuse votes of a judge on answers of several models to one question: the question alone is not what was judged."""
    judge = next((name for name in _JUDGE if name in source.first and name.startswith(_NAMED)), None)
    judged = next((name for name in _JUDGE if name.startswith("model") and name in source.first), None)
    item = _key(source.first, _ITEM)
    if judge is None or judged is None or item is None:
        return
    seen: dict[str, Any] = {}
    for row, record in source.records:
        pair = repr((record.get(item), record.get(judge)))
        if seen.setdefault(pair, record.get(judged)) != record.get(judged):
            raise InputError(
                f"{source.name} {source.unit} {row}: {judge!r} judged answers of several {judged!r} to one {item!r}; what was "
                f"judged takes both: join {item!r} and {judged!r} in one field, or keep the records of one {judged!r}"
            )


def _refuse_row_per_class(source: Source, request: Request) -> None:
    """Refuse a verdict that is written a record per class, with its probability or the logarithm."""
    taken = {"item": _key(source.first, _ITEM), "annotator": _key(source.first, _JUDGE), "label": _key(source.first, _LABEL)}
    names = [name for name in taken.values() if name is not None]
    plain = [name for name, cell in source.first.items() if isinstance(cell, int | float) or name in names]
    if len(names) == 3 and len(plain) > 3 and all(not isinstance(source.first[name], list | dict) for name in names):
        from crowdwise.io.beside import refuse_row_shares

        refuse_row_shares(source.table(plain).frame, dict(zip(taken, names, strict=True)), source.name, request)


def _parts(record: Record) -> type[list[Any]] | type[dict[Any, Any]] | None:
    """Whether judges are lists or objects, by the first of them."""
    nested = record.get(_key(record, _LISTS) or "")
    vote = nested[0] if isinstance(nested, list) and nested and isinstance(nested[0], dict) else record
    judge = vote.get(_key(vote, _JUDGE) or "")
    return type(judge) if isinstance(judge, list | dict) else None


def _name(judge: Any, parts: type[list[Any]] | type[dict[Any, Any]] | None) -> Any:
    """The name of a judge of several parts: "gpt-4 pair-v2" of a list, as MT-Bench has it, and "gpt-4/strict" of an object."""
    if parts is None or not isinstance(judge, parts) or not judge:
        return judge
    values, mark = (list(judge.values()), "/") if isinstance(judge, dict) else (list(judge), " ")
    return mark.join(map(str, values)) if all(isinstance(value, str | int | float) for value in values) else judge


def _key(record: Record, names: Iterable[str]) -> str | None:
    return next((name for name in names if name in record), None)


def _scalar(value: Any) -> Any:
    return value.strip() if isinstance(value, str) else json.dumps(value) if isinstance(value, dict) else value
