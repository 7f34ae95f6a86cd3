"""Columns of a long table beside item, annotator and label that change what its rows mean: questions, status, how sure.

A column that tells several questions apart is asked about; others are named in a line, for their rows count as all do.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from crowdwise.data.encode import ALIASES, as_text, tidy
from crowdwise.errors import InputError, listed
from crowdwise.io.exports import Request
from crowdwise.io.roles import GOLD, words_of
from crowdwise.io.source import Places, Table
from crowdwise.io.tallies import LOGARITHM

__all__ = ["asked", "may_matter", "of_question", "question_names", "refuse_questions", "refuse_row_shares"]

_QUESTION = {"question", "questions", "aspect", "attribute", "dimension", "criterion", "criteria", "field", "subtask", "task"}
_QUESTION |= {"category", "prompt", "variable", "feature", "property", "facet", "frage", "type"}
_STATUS = {"status", "state", "approved", "rejected", "accepted", "valid", "flag", "flagged", "deleted", "spam", "skipped"}
_SURE = {"confidence", "conf", "certainty", "certain", "sure", "probability", "prob", "trust"}
_LABELS = {"label", "labels", "answer", "response", "vote", "choice", "annotation"}
_MOST_QUESTIONS = 50


def question_names(names: Sequence[str]) -> list[str]:
    """Names with a word for questions in them."""
    return [name for name in names if not _QUESTION.isdisjoint(words_of(name))]


def asked(frame: pl.DataFrame, taken: Mapping[str, str]) -> list[str]:
    """The column that tells several questions apart: an annotator's rows on one item differ by it, and by no label alone.

    Its name is a word for questions, or its values have no label in common.
    """
    pair = [taken["item"], taken["annotator"]]
    if frame.select(pl.struct(pair).n_unique()).item() == frame.height:
        return []
    found = []
    for name in frame.columns:
        if name in taken.values() or frame[name].dtype.is_nested():
            continue
        few = 1 < frame[name].n_unique() <= _MOST_QUESTIONS and not frame[name].null_count()
        if few and frame.select(pl.struct(*pair, name).n_unique()).item() >= 0.95 * frame.height:
            named = not _QUESTION.isdisjoint(words_of(name))
            if named or _share_no_label(frame, name, taken["label"]):
                found.append((not named, name))
    return [name for _, name in sorted(found)]


def _share_no_label(frame: pl.DataFrame, name: str, label: str) -> bool:
    """Whether no label is given under two values of a column."""
    pairs = frame.select(name, label).drop_nulls().unique()
    return 0 < pairs.height == pairs[label].n_unique() and pairs[label].n_unique() > pairs[name].n_unique()


def refuse_questions(frame: pl.DataFrame, taken: Mapping[str, str], source: str, request: Request) -> None:
    """Refuse a table whose rows answer several questions."""
    found = asked(frame, taken)
    if found:
        values = as_text(tidy(frame[found[0]])).unique(maintain_order=True).to_list()
        kept = replace(request, question=None, label=request.label or request.question)
        one, all_ = replace(kept, question=values[0]).command(source), replace(kept, format="tidy").command(source)
        raise InputError(
            f"{source}: several questions, in the column {found[0]!r}: {listed(map(repr, values), 8)}. An annotator's answers "
            f"to all of them would be votes on one item. Read one: {one}; if they are one question: {all_}"
        )


def refuse_row_shares(frame: pl.DataFrame, taken: Mapping[str, str], source: str, request: Request) -> None:
    """Refuse a vote that is written a row per class: each of its labels would be a vote of its own."""
    pair, label = [taken["item"], taken["annotator"]], taken["label"]
    likely = [name for name in frame.columns if name not in taken.values()]
    likely = [name for name in likely if LOGARITHM(name) or _SURE & set(words_of(name))]
    if not likely:
        return
    votes = frame.select(pl.struct(pair).n_unique()).item()
    if votes > 0.75 * frame.height or frame.select(pl.struct(*pair, label).n_unique()).item() < frame.height:
        return
    for name in likely:
        logs = bool(LOGARITHM(name))
        values = frame.select(*pair, value=pl.col(name).cast(pl.Float64, strict=False))
        total = values.group_by(pair).agg((pl.col("value").exp() if logs else pl.col("value")).sum())["value"]
        whole = int(total.is_between(0.5 if logs else 0.98, 1.02).sum())
        if values["value"].null_count() or whole <= 0.95 * len(total):
            continue
        what = f"{'log-' * logs}probabilities of the classes, a row for each class"
        way = request.command(source, "--probabilities", name)
        raise InputError(f"{source}: {name!r} holds {what}. Read them: {way} (probabilities=... in Python)")


def of_question(table: Table, taken: Mapping[str, str], wanted: str, names: Sequence[str]) -> Table | None:
    """The rows that answer the question `wanted`, where it is a value of such a column; None where it is none."""
    found = [name for name in asked(table.frame, taken) if wanted in as_text(tidy(table.frame[name])).unique().to_list()]
    if not found:
        return None
    keep = (as_text(tidy(table.frame[found[0]])) == wanted).fill_null(False)
    index = np.flatnonzero(keep.to_numpy())
    where = table.where
    rows = index + where.first_row if where.rows is None else where.rows[index]
    return Table(table.frame.filter(keep).select(names), Places(where.source, rows=rows, unit=where.unit))


def may_matter(names: Sequence[str], frame: Any) -> list[str]:
    """What to say of columns that are left alone and that may change which rows count, or how much; `frame` reads columns."""
    said = []
    sure = [name for name in names if _SURE & set(words_of(name))]
    for name in names:
        words = set(words_of(name))
        if words & _STATUS:
            values = [str(value) for value in frame(name).drop_nulls().unique(maintain_order=True).to_list()]
            if 1 < len(values) <= 8:
                said.append(f"{name!r} ({listed(values, 4)}: all rows count)")
        elif words & GOLD:
            said.append(f"{name!r} (not used; known labels are read from a column called gold)")
        elif words & _SURE:
            said.append(f"{name!r} (not used; {shlex.join(['--sure', name])} does)" if len(sure) == 1 else repr(name))
        elif name.lower() in ALIASES["weight"]:
            said.append(f"{name!r} (not used; {shlex.join(['--weight', name])} does)")
        elif words & _LABELS or not _QUESTION.isdisjoint(words):
            said.append(repr(name))
    return said
