"""Label Studio: the full JSON export, several annotations per task."""

from __future__ import annotations

from typing import Any

from crowdwise.io.source import Record, Source
from crowdwise.io.votes import Ballot, Export, Request

# Result types with one answer per vote, by the key of their value.
_VALUES = ("choices", "rating", "number", "selected", "text", "datetime", "taxonomy", "labels")


def matches(source: Source) -> bool:
    """Recognise a task with annotations (completions, before version 1) that hold results."""
    if source.kind not in ("json", "jsonl"):
        return False
    first = source.first
    found = _annotations(first)
    return isinstance(found, list) and (
        any(isinstance(entry, dict) and "result" in entry for entry in found) or (not found and {"data", "id"} <= first.keys())
    )


def read(source: Source, request: Request) -> Export:
    """Return the votes of annotations that were not cancelled, by question (`from_name`)."""
    ballot = Ballot(source)
    for row, task in source.walk():
        item = _item(task)
        ballot.item(item)
        for annotation in _annotations(task) or []:
            answers = {} if annotation.get("was_cancelled") else _answers(annotation)
            if annotation.get("ground_truth"):
                ballot.gold(row, item, answers)
            else:
                ballot.vote(row, item, _person(annotation), answers)
        for prediction in (task.get("predictions") or []) if request.predictions else []:
            if isinstance(prediction, dict):
                ballot.vote(row, item, f"model:{prediction.get('model_version') or 'unnamed'}", _answers(prediction))
    return ballot.export(request.question or request.label)


def _annotations(task: Record) -> Any:
    return task.get("annotations", task.get("completions"))


def _item(task: Record) -> Any:
    """Return the task id; a file that was never imported has only its data."""
    if task.get("id") is not None:
        return task["id"]
    data = task.get("data")
    return next((value for value in data.values() if isinstance(value, str | int)), None) if isinstance(data, dict) else None


def _person(annotation: Record) -> Any:
    """Return who completed it: a number, or the e-mail or id of an object."""
    person = annotation.get("completed_by")
    if isinstance(person, dict):
        return next((person[key] for key in ("email", "id", "username") if person.get(key) not in (None, "")), None)
    return person


def _answers(annotation: Record) -> dict[str, Any]:
    """Return the labels by question; several regions of a question give several labels."""
    answers: dict[str, Any] = {}
    for result in annotation.get("result") or []:
        value = result.get("value") if isinstance(result, dict) else None
        if not isinstance(value, dict) or "from_name" not in result:
            continue
        # rectanglelabels, polygonlabels, ...: the label of a region
        key = next((k for k in (*_VALUES, *value) if k in value and (k in _VALUES or k.endswith("labels"))), None)
        if key is not None:
            found = value[key] if isinstance(value[key], list) else [value[key]]
            answers.setdefault(str(result["from_name"]), []).extend(found)
    return answers
