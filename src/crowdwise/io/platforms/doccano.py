"""doccano: a folder (or several files) with one JSONL file per user; the file name is the annotator.

Spans are ``[start, end, label]`` (https://doccano.github.io/doccano/tutorial/, sequence labelling).
"""

from __future__ import annotations

from typing import Any

from crowdwise.errors import InputError
from crowdwise.io.advice import instead
from crowdwise.io.offsets import Document, spans_of
from crowdwise.io.source import Record, Source
from crowdwise.io.tallies import repeats_itself
from crowdwise.io.votes import Ballot, Export, Request


def matches(source: Source) -> bool:
    """Recognise an id and a text with a list of labels or entities, in the first file."""
    part = source.parts[0] if source.parts else source
    if part.kind not in ("json", "jsonl"):
        return False
    first = part.first
    keys = [key for key in ("label", "labels", "entities") if isinstance(first.get(key), list)]
    # Nobody ticks a label twice: lists in which one recurs are the votes of several people.
    again = any(repeats_itself(record.get(key)) for key in keys for _, record in part.records[:50])
    return bool({"id", "text"} <= first.keys()) and bool(keys) and not again


def read(source: Source, request: Request) -> Export:
    """Return the votes of every file; unlabelled documents keep their item."""
    ballot, parts = Ballot(source), _parts(source)
    if len(parts) == 1:
        request.notes.append(f"{source.name}: one file of doccano, so one annotator, called as the file: {parts[0][0]!r}")
    for name, part in parts:
        for row, record in part.walk():
            value = _label(record)
            if request.question is None and any(isinstance(part, list | dict) for part in _given(record)):
                way = instead("spans", source.name)
                raise InputError(f"{part.name} row {row}: spans of text, no labels of whole items; {way} reads them")
            ballot.vote(row, record.get("id"), name, {"label": value})
    return ballot.export(request.question or request.label)


def read_spans(source: Source, wanted: str | None) -> list[Document]:
    """The spans that every user marked in every document."""
    documents = []
    for name, part in _parts(source):
        for row, record in part.walk():
            spans = spans_of(_given(record), f"{part.name} {part.unit} {row}")
            documents.append(Document(row, record.get("id"), name, str(record.get("text", "")), spans))
    return documents


def _parts(source: Source) -> list[tuple[str, Source]]:
    """The files with their annotators."""
    parts = [part for part in (source.parts or (source,)) if part.path.suffix in (".json", ".jsonl")]
    names = [part.path.stem for part in parts]
    if "all" in names:
        raise InputError(
            f"{parts[names.index('all')].name}: the shared export loses who annotated; turn off sharing of annotations, "
            "export one file per user, and give the folder"
        )
    return list(zip(names, parts, strict=True))


def _given(record: Record) -> list[Any]:
    return next((record[key] for key in ("label", "labels", "entities") if isinstance(record.get(key), list)), [])


def _label(record: Record) -> Any:
    """Return the label of a document; spans are [start, end, label] and count as labels of their own."""
    value = record.get("label", record.get("labels", record.get("entities")))
    if isinstance(value, list) and any(isinstance(part, list | dict) for part in value):
        return [part[-1] if isinstance(part, list) else part.get("label") for part in value]
    return value
