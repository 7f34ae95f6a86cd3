"""Amazon Mechanical Turk: assignments as its API returns them, with the answers in XML."""

from __future__ import annotations

import warnings
from xml.etree import ElementTree

from crowdwise.errors import DataWarning, InputError
from crowdwise.io.source import Record, Source
from crowdwise.io.votes import Ballot, Export, Request


def matches(source: Source) -> bool:
    """Recognise assignments, in a list, by line or below "Assignments"."""
    first = _assignments(source.first)[:1] if source.kind in ("json", "jsonl") else []
    return bool(first) and {"HITId", "WorkerId", "Answer"} <= first[0].keys()


def read(source: Source, request: Request) -> Export:
    """Return the votes of the assignments that were not rejected."""
    ballot = Ballot(source)
    rejected = 0
    for row, record in source.walk():
        for assignment in _assignments(record):
            answers = _parse(str(assignment.get("Answer", "")), f"{source.name} {source.unit} {row}")
            if assignment.get("AssignmentStatus") == "Rejected":
                rejected += 1
                answers = {}
            ballot.vote(row, assignment.get("HITId"), assignment.get("WorkerId"), answers)
    if rejected:
        warnings.warn(f"{source.name}: {rejected} rejected assignments were left out", DataWarning, stacklevel=2)
    return ballot.export(request.question)


def _assignments(record: Record) -> list[Record]:
    inner = record.get("Assignments")
    return [entry for entry in inner if isinstance(entry, dict)] if isinstance(inner, list) else [record]


def _parse(text: str, place: str) -> dict[str, str | None]:
    # Answers come from strangers: a document type could declare entities that expand without end.
    if "<!" in text.replace("<![CDATA[", ""):
        raise InputError(f"{place}: the answer declares a document type, which the API never does; remove that assignment")
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise InputError(f"{place}: the answer is broken XML ({error}); download the assignments again") from None
    answers: dict[str, str | None] = {}
    for answer in root.iterfind("{*}Answer"):
        value = (
            answer.findtext("{*}SelectionIdentifier")
            or answer.findtext("{*}FreeText")
            or answer.findtext("{*}OtherSelectionText")
        )
        answers[answer.findtext("{*}QuestionIdentifier") or "answer"] = value
    return answers
