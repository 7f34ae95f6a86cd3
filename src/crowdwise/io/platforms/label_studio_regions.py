"""Label Studio: boxes on images, spans of texts and rankings (https://labelstud.io/guide/task_format, /tags/ranker)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from crowdwise.errors import InputError, did_you_mean
from crowdwise.io.boxes import Box
from crowdwise.io.offsets import Document
from crowdwise.io.platforms.label_studio import (
    BOXES,
    RANKING,
    SPANS,
    annotations_of,
    control_kinds,
    item_of,
    person_of,
    results_of,
)
from crowdwise.io.source import Record, Source

__all__ = ["read_boxes", "read_rankings", "read_spans"]


def read_boxes(source: Source, wanted: str | None) -> list[Box] | None:
    """The boxes of a question, in percent of the image; None where no question has any and none was named."""
    question = _question(source, wanted, BOXES)
    if question is None:
        return None
    boxes = []
    for row, item, person, value in _values(source, question):
        x, y, width, height = (float(value[key]) for key in ("x", "y", "width", "height"))
        label = next((value[key] for key in value if key.endswith("labels")), None) or ["box"]
        boxes.append(Box(row, item, person, str(label[0]), (x, y, x + width, y + height)))
    return boxes


def read_spans(source: Source, wanted: str | None) -> list[Document]:
    """The documents of a question with the spans that each annotator marked; one without spans was read and left empty."""
    question = _question(source, wanted, SPANS)
    if question is None:
        raise InputError(f"{source.name}: no spans of text among the answers{_found(source)}")
    documents = []
    for row, task in source.walk():
        data = task.get("data") or {}
        for annotation in annotations_of(task) or []:
            if annotation.get("was_cancelled") or annotation.get("ground_truth"):
                continue
            marked = [result["value"] for name, _, result in results_of(annotation) if name == question]
            spans = [_span(value) for value in marked]
            documents.append(Document(row, item_of(task), person_of(annotation), _text(data, marked, spans), spans))
    return documents


def read_rankings(source: Source, wanted: str | None) -> Iterator[tuple[int, Any, list[Any]]]:
    """The row, the annotator and the things in order, best first, of every ranking."""
    question = _question(source, wanted, RANKING)
    if question is None:
        raise InputError(f"{source.name}: no rankings among the answers{_found(source)}")
    for row, _, person, value in _values(source, question):
        order = value.get("ranker")
        # Lists by bucket have no order between the buckets.
        for things in order.values() if isinstance(order, dict) else [order]:
            yield row, person, list(things or [])


def _values(source: Source, question: str) -> Iterator[tuple[int, Any, Any, Record]]:
    for row, task in source.walk():
        for annotation in annotations_of(task) or []:
            if annotation.get("was_cancelled") or annotation.get("ground_truth"):
                continue
            for name, _, result in results_of(annotation):
                if name == question:
                    yield row, item_of(task), person_of(annotation), result["value"]


def _question(source: Source, wanted: str | None, kind: str) -> str | None:
    """The question that asks for this kind of thing."""
    kinds = control_kinds(source)
    if wanted is not None:
        if wanted not in kinds:
            hint = did_you_mean(wanted, list(kinds))
            raise InputError(f"{source.name}: no question {wanted!r}{_found(source)}{hint}")
        return wanted if kinds[wanted] == kind else None
    found = [question for question, of in kinds.items() if of == kind]
    if len(found) > 1:
        listed = ", ".join(map(repr, found))
        raise InputError(f"{source.name}: several questions ask for {kind}: {listed}. Pick one with question=... or --question")
    return found[0] if found else None


def _found(source: Source) -> str:
    return "; found " + (", ".join(f"{name!r} ({kind})" for name, kind in control_kinds(source).items()) or "no questions")


def _span(value: Record) -> tuple[int, int, str]:
    label = next((value[key] for key in value if key.endswith("labels")), None) or ["span"]
    # Of web pages, "start" is a path in the page; the place in its text stands apart.
    places: Record = value.get("globalOffsets") or value
    return int(places["start"]), int(places["end"]), str(label[0])


def _text(data: Record, marked: list[Record], spans: list[tuple[int, int, str]]) -> str:
    """The text of a task: the field in which the marked words stand where they are said to, else "text", else the longest."""
    texts = [value for value in data.values() if isinstance(value, str)]
    words = [value.get("text") for value in marked]
    for text in texts if spans else []:
        if all(text[start:end] == word for (start, end, _), word in zip(spans, words, strict=True)):
            return text
    usual = data.get("text")
    return usual if isinstance(usual, str) else max(texts, key=len, default="")
