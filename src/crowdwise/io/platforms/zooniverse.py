"""Zooniverse: the classification export, one row per classification with its answers as JSON."""

from __future__ import annotations

from typing import Any

from crowdwise.errors import InputError
from crowdwise.io.source import Source, parse_json
from crowdwise.io.votes import Ballot, Export, Request
from crowdwise.io.workflow_versions import COLUMNS, Questions


def read(source: Source, request: Request) -> Export:
    """Return the votes; people who were not logged in keep the hashed name that distinguishes them."""
    has_gold = "gold_standard" in source.columns
    item, annotator = request.item or "subject_ids", request.annotator or "user_name"
    table = source.table([item, annotator, "annotations", *(["gold_standard"] if has_gold else [])])
    flow = [source.table([name]).frame[name] if name in source.columns else None for name in COLUMNS]
    questions = Questions(source, request)
    ballot = Ballot(source, untyped=True)
    for index, cells in enumerate(table.frame.iter_rows()):
        workflow, version = (None if column is None else column[index] for column in flow)
        if not questions.is_read(version):
            continue
        place = table.where.row(index)
        row = int(place.rsplit(" ", 1)[1])
        tasks = parse_json(cells[2], f"{place}, annotations") if cells[2] else []
        if not isinstance(tasks, list):
            raise InputError(f"{place}: annotations should be a JSON list of tasks, got {cells[2]!r:.40}")
        answers = _answers(questions.named(tasks, workflow, version))
        if has_gold and str(cells[3]).lower() in ("true", "1"):
            ballot.gold(row, cells[0], answers)
        else:
            ballot.vote(row, cells[0], cells[1], answers)
    questions.check()
    return ballot.export(request.question or request.label)


def _answers(tasks: list[Any]) -> dict[str, Any]:
    """Return the value by task; a combo task holds its tasks in a list."""
    answers: dict[str, Any] = {}
    for task in tasks:
        if not isinstance(task, dict):
            continue
        value = task.get("value")
        if isinstance(value, list) and value and all(isinstance(part, dict) and "task" in part for part in value):
            answers |= _answers(value)
        elif "task" in task:
            answers[str(task["task"])] = value
    return answers
