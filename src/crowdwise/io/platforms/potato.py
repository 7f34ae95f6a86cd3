"""Potato: annotated_instances.jsonl, one line per instance and annotator.

``annotation_output/<user>/annotated_instances.jsonl`` names the user by its folder, the joint file by ``user_id``. Answers are
below ``label_annotations`` as ``{schema: {label: "true"}}`` or ``{schema: {field: value}}``, spans below ``span_annotations``
as ``{"start", "end", "span", "annotation"}``, in a list or in lists by schema (https://potatoannotator.readthedocs.io/).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from crowdwise.errors import InputError
from crowdwise.io.offsets import Document
from crowdwise.io.source import Record, Source
from crowdwise.io.votes import Ballot, Export, Request

__all__ = ["read", "read_spans"]

_TAG = re.compile(r"<[^>]*>")
_TYPE = ("annotation", "label", "name", "title", "value")


def read(source: Source, request: Request) -> Export:
    """Return the votes by schema; boxes that are ticked are labels, other fields give their values."""
    ballot = Ballot(source, untyped=True)
    for part, row, record in _records(source):
        given = record.get("label_annotations")
        answers = {name: _answer(value) for name, value in given.items()} if isinstance(given, dict) else {}
        ballot.vote(row, _item(record), _person(record, part), answers)
    return ballot.export(request.question or request.label)


def read_spans(source: Source, wanted: str | None) -> list[Document]:
    """The spans that every annotator marked in every text, of one schema where several have spans."""
    documents = []
    for part, row, record in _records(source):
        marked = [span for schema, span in _spans(record) if wanted in (None, schema)]
        documents.append(_document(row, record, _person(record, part), marked, f"{part.name} {part.unit} {row}"))
    return documents


def _records(source: Source) -> Iterator[tuple[Source, int, Record]]:
    for part in source.parts if source.parts is not None else (source,):
        for row, record in part.walk():
            if "label_annotations" in record or "span_annotations" in record:
                yield part, row, record


def _item(record: Record) -> Any:
    return record.get("id", record.get("instance_id"))


def _person(record: Record, part: Source) -> Any:
    return next((record[key] for key in ("user_id", "user", "annotator") if record.get(key)), part.path.resolve().parent.name)


def _answer(fields: Any) -> Any:
    if not isinstance(fields, dict):
        return fields
    on = [name for name, value in fields.items() if value is True or str(value).lower() == "true" or value == name]
    values = [value for value in fields.values() if value not in (None, "", False, "false")]
    return on if on else values


def _spans(record: Record) -> Iterator[tuple[str, Record]]:
    given = record.get("span_annotations") or []
    lists = given.items() if isinstance(given, dict) else [("", given)]
    for schema, spans in lists:
        for span in spans if isinstance(spans, list) else ():
            yield str(span.get("schema", schema)), span


def _document(row: int, record: Record, person: Any, marked: list[Record], place: str) -> Document:
    spans = [(int(s["start"]), int(s["end"]), str(next(s[key] for key in _TYPE if s.get(key)))) for s in marked]
    shown = str(record.get("displayed_text", record.get("text", "")))
    # Offsets count the characters of the page, which leaves its markup out.
    for text in (shown, _TAG.sub("", shown)):
        if all(s.get("span") in (None, text[start:end]) for s, (start, end, _) in zip(marked, spans, strict=True)):
            return Document(row, _item(record), person, text, spans)
    raise InputError(f"{place}: the marked words are not where the offsets say; was the text changed since?")
