"""Zooniverse: the classification export, one row per classification with its answers as JSON.

A survey task (https://zooniverse.github.io/panoptes-python-notebook/, "survey tasks" in the help pages of the project builder)
has a list of choices, each with answers to its own sub-questions: ``{"choice": "RACCOON", "answers": {"HOWMANY": "2"}}``. The
choices are the labels of the task (``T0``); a sub-question is a question of its own (``T0.HOWMANY``), also of one choice alone
(``T0.RACCOON.HOWMANY``), and without a label wherever it was not asked.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

from crowdwise.errors import DataWarning, InputError
from crowdwise.io.source import Source, parse_json
from crowdwise.io.votes import Ballot, Export, Request
from crowdwise.io.workflow_versions import COLUMNS, Questions


def read(source: Source, request: Request) -> Export:
    """Return the votes; people who were not logged in keep the hashed name that distinguishes them."""
    has_gold = "gold_standard" in source.columns
    item, annotator = request.item or "subject_ids", request.annotator or "user_name"
    table = source.table([item, annotator, "annotations", *(["gold_standard"] if has_gold else [])])
    wanted = request.question or request.label
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
        answers = _answers(questions.named(tasks, workflow, version), wanted)
        if has_gold and str(cells[3]).lower() in ("true", "1"):
            ballot.gold(row, cells[0], answers)
        else:
            ballot.vote(row, cells[0], cells[1], answers)
    questions.check()
    return _without_unasked(ballot, ballot.export(wanted), wanted)


def _without_unasked(ballot: Ballot, export: Export, wanted: str | None) -> Export:
    """Do not count as missing what a classification was not asked: a follow-up depends on the answer before it."""
    # Of a question named by its text, `Questions` calls the task by that text.
    asked = sum(wanted is None or wanted in answers for _, _, _, answers in ballot.votes)
    if asked in (0, len(ballot.votes)):
        return export
    warnings.warn(
        f"{ballot.source.name}: {wanted!r} was asked in {asked:,} of {len(ballot.votes):,} classifications; "
        "items of which it never was have no label",
        DataWarning,
        stacklevel=3,
    )
    return replace(export, n_left_out=len(ballot.votes) - asked)


def _answers(tasks: list[Any], wanted: str | None) -> dict[str, Any]:
    """Return the value by task; a combo task holds its tasks in a list."""
    answers: dict[str, Any] = {}
    for task in tasks:
        if not isinstance(task, dict):
            continue
        value = task.get("value")
        if isinstance(value, list) and value and all(isinstance(part, dict) and "task" in part for part in value):
            answers |= _answers(value, wanted)
        elif "task" in task and _is_survey(value):
            answers |= _survey(str(task["task"]), value, wanted)
        elif "task" in task:
            answers[str(task["task"])] = value
    return answers


def _is_survey(value: Any) -> bool:
    choices = value if isinstance(value, list) else [value]
    return bool(choices) and all(isinstance(part, dict) and "choice" in part for part in choices)


def _survey(task: str, value: Any, wanted: str | None) -> dict[str, Any]:
    """Return the choices, each once, and the answers to their sub-questions; those of one choice alone only if wanted."""
    choices = value if isinstance(value, list) else [value]
    answers: dict[str, Any] = {task: list(dict.fromkeys(part["choice"] for part in choices))}
    for part in choices:
        given = part.get("answers")
        for question, answer in given.items() if isinstance(given, dict) else ():
            names = {f"{task}.{question}"} | {f"{task}.{part['choice']}.{question}"} & {wanted}
            for name in names:
                answers.setdefault(name, []).extend(answer if isinstance(answer, list) else [answer])
    return answers
