"""Amazon Mechanical Turk: the batch results CSV, one row per assignment."""

from __future__ import annotations

import re
from dataclasses import replace

import polars as pl

from crowdwise.errors import InputError, listed
from crowdwise.io.platforms.forms import box_labels, form_answers
from crowdwise.io.source import Source, Table
from crowdwise.io.votes import Export, Request, choose_question, column, single, tabular

_ANSWER, _INPUT = "Answer.", "Input."


def read(source: Source, request: Request) -> Export:
    """Return the votes; the item is the HIT unless `item` names another column (Input.*)."""
    table = source.table(source.columns)
    frame = _unpacked(table)
    questions = _questions(frame)
    wanted = request.question or request.label
    if wanted is None and len(questions) > 1 and all(map(_is_box, questions.items())):
        if request.several != "split":
            ways = [
                request.command(source.name, *more)
                for more in (("--type", "multilabel"), ("--question", next(iter(questions))))
            ]
            raise InputError(
                f"{source.name}: boxes to tick: {listed(map(repr, questions), 8)}. All of them, as sets: {ways[0]}; one "
                f"of them, as yes or no: {ways[1]} (question=... in Python)"
            )
        # Boxes with a name each are the options of one question to which several answers are right.
        questions = {", ".join(questions): [name for names in questions.values() for name in names]}
    question = choose_question(list(questions), wanted and wanted.removeprefix(_ANSWER), source.name)
    shown = _shown_for(question, list(questions), frame.columns)
    if shown is not None and request.item is None:
        way = replace(request, question=question, item=shown).command(source.name)
        request.notes.append(
            f"{source.name}: a HIT shows several inputs, and {question!r} seems to be about {shown!r}; the item is the HIT; "
            f"to have the input as the item: {way}"
        )
    label, nothing = _answers(frame, question, questions[question])
    if "AssignmentStatus" in frame.columns:
        rejected = (frame["AssignmentStatus"].str.to_lowercase() == "rejected").fill_null(False)
    elif "Reject" in frame.columns:
        rejected = frame["Reject"].is_not_null()
    else:
        rejected = None
    export = tabular(
        table,
        frame[request.item or "HITId"],
        frame[request.annotator or "WorkerId"],
        label,
        weight=frame[request.weight] if request.weight else None,
        drop=rejected,
        why="rejected assignments",
    )
    return export if nothing is None else replace(export, empty=nothing if rejected is None else nothing & ~rejected)


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


def _is_box(group: tuple[str, list[str]]) -> bool:
    """Whether a question is one box to tick, with no other option beside it."""
    question, names = group
    return len(names) == 1 and names[0] != _ANSWER + question


def _answers(frame: pl.DataFrame, question: str, columns: list[str]) -> tuple[pl.Series, pl.Series | None]:
    """The label of every row; of boxes that are read together, also the rows in which none of them is ticked."""
    if columns == [_ANSWER + question]:
        return frame[columns[0]], None
    ticked = frame.select(pl.col(columns).str.to_lowercase() == "true")
    if len(columns) == 1:
        yes, no = box_labels(columns[0].removeprefix(f"{_ANSWER}{question}."))
        return ticked.select(
            pl.when(pl.col(columns[0])).then(pl.lit(yes)).when(~pl.col(columns[0])).then(pl.lit(no))
        ).to_series(), None
    apart = any(not name.startswith(f"{_ANSWER}{question}.") for name in columns)
    names = [name.removeprefix(_ANSWER).rpartition(".")[0 if apart else 2] for name in columns]
    chosen = [[name for name, on in zip(names, row, strict=True) if on] for row in ticked.rows()]
    # Rows without a button on are missing; several are several labels, never the first.
    label = pl.Series("label", [single(options, question) for options in chosen], dtype=pl.String)
    return label, label.is_null() & ~ticked.select(pl.all_horizontal(pl.all().is_null())).to_series() if apart else None
