"""Amazon Mechanical Turk: the batch results CSV, one row per assignment."""

from __future__ import annotations

import re
from dataclasses import replace

import polars as pl

from crowdwise.io.platforms.forms import form_answers
from crowdwise.io.source import Source, Table
from crowdwise.io.votes import Export, Request, choose_question, column, single, tabular

_ANSWER, _INPUT = "Answer.", "Input."


def read(source: Source, request: Request) -> Export:
    """Return the votes; the item is the HIT unless `item` names another column (Input.*)."""
    table = source.table(source.columns)
    frame = _unpacked(table)
    questions = _questions(frame)
    wanted = request.question or request.label
    question = choose_question(list(questions), wanted and wanted.removeprefix(_ANSWER), source.name)
    shown = _shown_for(question, list(questions), frame.columns)
    if shown is not None and request.item is None:
        way = replace(request, question=question, item=shown).command(source.name)
        request.notes.append(
            f"{source.name}: a HIT shows several inputs, and {question!r} seems to be about {shown!r}; the item is the HIT; "
            f"to have the input as the item: {way}"
        )
    if "AssignmentStatus" in frame.columns:
        rejected = (frame["AssignmentStatus"].str.to_lowercase() == "rejected").fill_null(False)
    elif "Reject" in frame.columns:
        rejected = frame["Reject"].is_not_null()
    else:
        rejected = None
    return tabular(
        table,
        frame[request.item or "HITId"],
        frame[request.annotator or "WorkerId"],
        _answers(frame, question, questions[question]),
        weight=frame[request.weight] if request.weight else None,
        drop=rejected,
        why="rejected assignments",
    )


def _shown_for(question: str, questions: list[str], names: list[str]) -> str | None:
    """The input that a numbered question is about, where every question has an input with its number."""
    numbers = {name: re.search(r"\d+$", name) for name in questions}
    shown = {n[0]: name for name in names if name.startswith(_INPUT) and (n := re.search(r"\d+$", name)) is not None}
    asked = [n[0] for n in numbers.values() if n is not None]
    if len(asked) < 2 or len(asked) < len(questions) or not set(asked) <= shown.keys():
        return None
    return shown[numbers[question][0]]  # type: ignore[index]


def _unpacked(table: Table) -> pl.DataFrame:
    """Give every question inside the JSON of crowd HTML forms a column of its own."""
    packed = _ANSWER + "taskAnswers"
    if packed not in table.frame.columns:
        return table.frame
    places = [table.where.row(index) for index in range(table.frame.height)]
    answers = [form_answers(text, place) if text else {} for text, place in zip(table.frame[packed], places, strict=True)]
    columns = {
        _ANSWER + question: column(
            [single(answer.get(question), place) for answer, place in zip(answers, places, strict=True)], table.where
        )
        for question in dict.fromkeys(question for answer in answers for question in answer)
    }
    return table.frame.drop(packed).with_columns(series.cast(pl.String).alias(name) for name, series in columns.items())


def _questions(frame: pl.DataFrame) -> dict[str, list[str]]:
    """Group answer columns: radio buttons arrive as one true/false column per option."""
    groups: dict[str, list[str]] = {}
    for name in frame.columns:
        if not name.startswith(_ANSWER):
            continue
        question, _, option = name.removeprefix(_ANSWER).rpartition(".")
        is_button = bool(question and option) and frame[name].drop_nulls().str.to_lowercase().is_in(["true", "false"]).all()
        groups.setdefault(question if is_button else name.removeprefix(_ANSWER), []).append(name)
    return groups


def _answers(frame: pl.DataFrame, question: str, columns: list[str]) -> pl.Series:
    if columns == [_ANSWER + question]:
        return frame[columns[0]]
    options = [
        pl.when(pl.col(name).str.to_lowercase() == "true").then(pl.lit(name.removeprefix(f"{_ANSWER}{question}.")))
        for name in columns
    ]
    ticked = frame.select(pl.concat_list(options).list.drop_nulls().alias("label")).to_series().to_list()
    # Rows without a button on are missing; several are several labels, never the first.
    return pl.Series("label", [single(options, question) for options in ticked], dtype=pl.String)
