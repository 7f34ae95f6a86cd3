"""Prodigy: JSONL from db-out, one line per answer."""

from __future__ import annotations

from typing import Any

from crowdwise.errors import InputError
from crowdwise.io.source import Record, Source
from crowdwise.io.votes import Ballot, Export, Request


def read(source: Source, request: Request) -> Export:
    """Return the votes: the chosen option, or accept and reject where one label was shown."""
    ballot = Ballot(source)
    for row, record in source.walk():
        person = next((record[key] for key in ("_annotator_id", "_session_id") if record.get(key) is not None), None)
        if person is None:
            raise InputError(
                f"{source.name} {source.unit} {row}: neither _annotator_id nor _session_id, so nobody knows who answered; "
                "open Prodigy with ?session=NAME for each annotator, or add the field"
            )
        item = record.get("_input_hash", record.get("_task_hash"))
        ballot.vote(row, item, person, _answers(record))
    return ballot.export(request.question or request.label)


def _answers(record: Record) -> dict[str, Any]:
    if record.get("answer") == "ignore":
        return {}
    if "options" in record or isinstance(record.get("accept"), list):
        # Rejecting a choice says that no option fits, which is no label.
        return {"choice": record.get("accept") if record.get("answer") == "accept" else None}
    if record.get("spans") and "label" not in record:
        return {"spans": [span.get("label") for span in record["spans"] if isinstance(span, dict)]}
    # Each label shown for a yes or no is a question of its own.
    return {str(record.get("label", "answer")): record.get("answer")}
