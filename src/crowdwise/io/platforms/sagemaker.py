"""SageMaker Ground Truth: what each worker said, before consolidation.

Three shapes: a manifest whose job attribute holds `annotationsFromAllWorkers`, the request sent to
a consolidation function, and a folder of worker-response files.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from crowdwise.io.export import Ballot, Export, Request
from crowdwise.io.source import Record, Source, parse_json

NAME = "sagemaker"
DESCRIPTION = "SageMaker Ground Truth: annotationsFromAllWorkers manifest, consolidation request, or worker-response folder"


def matches(source: Source) -> bool:
    """Recognise worker answers in the first record of the first file."""
    part = source.parts[0] if source.parts else source
    return part.kind in ("json", "jsonl") and any(True for _ in _votes(part.first, part))


def read(source: Source, request: Request) -> Export:
    """Return the votes; the item is the source, the object's id, or the folder of the response."""
    ballot = Ballot(source)
    for part in source.parts or (source,):
        for row, record in part.records:
            for item, person, content in _votes(record, part):
                ballot.vote(row, item, person, _answers(content, f"{part.name} {part.unit} {row}"))
    return ballot.export(request.question or request.label)


def _votes(record: Record, part: Source) -> Iterator[tuple[Any, Any, Any]]:
    item = record.get("source-ref", record.get("source", record.get("datasetObjectId")))
    lists = [
        v["annotationsFromAllWorkers"] for v in record.values() if isinstance(v, dict) and "annotationsFromAllWorkers" in v
    ]
    if "datasetObjectId" in record:
        lists.append(record.get("annotations"))
    for votes in lists:
        for vote in votes if isinstance(votes, list) else ():
            if isinstance(vote, dict) and isinstance(vote.get("annotationData"), dict):
                yield item, vote.get("workerId"), vote["annotationData"].get("content")
    answers = record.get("answers")
    for answer in answers if isinstance(answers, list) else ():
        if isinstance(answer, dict) and "answerContent" in answer:
            # annotations/worker-response/iteration-1/<number of the object>/<time>.json
            yield part.path.parent.name, answer.get("workerId"), answer["answerContent"]


def _answers(content: Any, place: str) -> dict[str, Any]:
    """Return the label by form element; a radio group is a dict of option: true or false."""
    content = parse_json(content, place) if isinstance(content, str) and content[:1] in ("{", "[") else content
    if not isinstance(content, dict):
        return {"answer": content}
    answers: dict[str, Any] = {}
    for question, value in content.items():
        if isinstance(value, dict) and value and all(isinstance(on, bool) for on in value.values()):
            value = [option for option, on in value.items() if on]
        elif isinstance(value, dict):
            value = value.get("label", value.get("labels", value))
        answers[question] = value
    return answers
