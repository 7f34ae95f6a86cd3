"""Labelbox: export v2 as NDJSON, one line per data row with the labels of each project."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from crowdwise.io.source import Record, Source
from crowdwise.io.votes import Ballot, Export, Request


def matches(source: Source) -> bool:
    """Recognise a data row with projects."""
    return source.kind in ("json", "jsonl") and isinstance(source.first.get("data_row"), dict) and "projects" in source.first


def read(source: Source, request: Request) -> Export:
    """Return the votes by classification; the item is the data row, the annotator who created the label."""
    ballot = Ballot(source)
    for row, record in source.walk():
        item = (record.get("data_row") or {}).get("id")
        ballot.item(item)
        for label in _labels(record):
            details = label.get("label_details") or {}
            ballot.vote(row, item, details.get("created_by"), _answers(label))
    return ballot.export(request.question or request.label)


def _labels(record: Record) -> Iterator[Record]:
    projects = record.get("projects")
    for project in projects.values() if isinstance(projects, dict) else ():
        for label in (project.get("labels") or []) if isinstance(project, dict) else ():
            if isinstance(label, dict):
                yield label


def _answers(label: Record) -> dict[str, Any]:
    """Return the answer by classification name; objects count by the name of their class."""
    found = label.get("annotations") or {}
    answers: dict[str, Any] = {}
    for entry in found.get("classifications") or []:
        name = str(entry.get("name") or entry.get("value"))
        if "radio_answer" in entry:
            answers[name] = _option(entry["radio_answer"])
        elif "checklist_answers" in entry:
            answers[name] = [_option(answer) for answer in entry["checklist_answers"] or []]
        elif "text_answer" in entry:
            answers[name] = (entry["text_answer"] or {}).get("content")
    objects = [entry.get("name") for entry in found.get("objects") or []]
    return answers | ({"objects": objects} if objects else {})


def _option(answer: Any) -> Any:
    if not isinstance(answer, dict):
        return answer
    return answer.get("name") if answer.get("name") not in (None, "") else answer.get("value")
