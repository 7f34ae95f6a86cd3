"""Prodigy: JSONL from db-out, one line per answer (https://prodi.gy/docs/api-interfaces)."""

from __future__ import annotations

from typing import Any

from crowdwise.errors import InputError
from crowdwise.io.advice import instead
from crowdwise.io.offsets import Document
from crowdwise.io.source import Record, Source
from crowdwise.io.votes import Ballot, Export, Request


def read(source: Source, request: Request) -> Export:
    """Return the votes: the chosen option, or accept and reject where one label was shown."""
    ballot = Ballot(source)
    wanted = request.question or request.label
    if wanted is None and all(_is_marked(record) for _, record in source.records):
        raise InputError(f"{source.name}: spans of text, no labels of whole items; {instead('spans', source.name)} reads them")
    for row, record in source.walk():
        ballot.vote(row, _item(record), _person(record, source, row), _answers(record))
    return ballot.export(wanted)


def read_spans(source: Source, wanted: str | None) -> list[Document]:
    """The spans of accepted answers; a rejected or ignored answer says nothing of its text."""
    documents = []
    for row, record in source.walk():
        if record.get("answer", "accept") != "accept" or not isinstance(record.get("text"), str):
            continue
        spans = [(int(span["start"]), int(span["end"]), str(span.get("label", "span"))) for span in record.get("spans") or []]
        tokens = [(int(token["start"]), int(token["end"])) for token in record.get("tokens") or []]
        documents.append(Document(row, _item(record), _person(record, source, row), record["text"], spans, tokens or None))
    return documents


def _item(record: Record) -> Any:
    return record.get("_input_hash", record.get("_task_hash"))


def _person(record: Record, source: Source, row: int) -> Any:
    person = next((record[key] for key in ("_annotator_id", "_session_id") if record.get(key) is not None), None)
    if person is None:
        raise InputError(
            f"{source.name} {source.unit} {row}: neither _annotator_id nor _session_id, so nobody knows who answered; "
            "open Prodigy with ?session=NAME for each annotator, or add the field"
        )
    return person


def _is_marked(record: Record) -> bool:
    return "spans" in record and "label" not in record and "options" not in record and "accept" not in record


def _answers(record: Record) -> dict[str, Any]:
    if record.get("answer") == "ignore":
        return {}
    if "options" in record or isinstance(record.get("accept"), list):
        # Rejecting a choice says that no option fits, which is no label.
        return {"choice": record.get("accept") if record.get("answer") == "accept" else None}
    if _is_marked(record):
        return {"spans": [span.get("label") for span in record["spans"] if isinstance(span, dict)]}
    # Each label shown for a yes or no is a question of its own.
    return {str(record.get("label", "answer")): record.get("answer")}
