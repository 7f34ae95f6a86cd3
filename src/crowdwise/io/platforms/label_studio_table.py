"""Label Studio: the short exports (CSV, TSV, JSON_MIN), one row per annotation, a column per question."""

from __future__ import annotations

from typing import Any

from crowdwise.io.source import Source, parse_json
from crowdwise.io.votes import Ballot, Export, Request, choose_question

_OWN = ("id", "annotator", "annotation_id", "created_at", "updated_at", "lead_time")


def read(source: Source, request: Request) -> Export:
    """Return the votes of one question."""
    columns = source.columns
    wanted = request.question or request.label
    # The exporter writes the task's data, the id, the questions, the annotator, in this order.
    between = (
        columns[columns.index("id") + 1 : columns.index("annotator")]
        if columns.index("id") < columns.index("annotator")
        else []
    )
    questions = [name for name in between if name not in _OWN] or [name for name in columns if name not in _OWN]
    if wanted is not None and wanted in columns:
        questions = [wanted]
    question = choose_question(questions, wanted, source.name)
    item, annotator = request.item or "id", request.annotator or "annotator"
    ballot = Ballot(source, untyped=source.kind == "delimited")
    if source.kind == "delimited":
        table = source.table([item, annotator, question])
        for index, (task, person, text) in enumerate(table.frame.iter_rows()):
            place = table.where.row(index)
            ballot.vote(int(place.rsplit(" ", 1)[1]), task, person, {question: _unpack(text, place)})
    else:
        for row, record in source.walk():
            value = record.get(question)
            ballot.vote(row, record.get(item), record.get(annotator), {question: _choices(value)})
    return ballot.export(question)


def _unpack(text: str | None, place: str) -> Any:
    """Read a cell: several choices, and results with regions, are written as JSON."""
    return _choices(parse_json(text, place)) if text and text[0] in "[{" else text


def _choices(value: Any) -> Any:
    return value["choices"] if isinstance(value, dict) and "choices" in value else value
