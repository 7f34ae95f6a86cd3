"""SageMaker Ground Truth: what each annotator said, before consolidation.

Three shapes: a manifest whose job attribute holds `annotationsFromAllWorkers`, the request sent to
a consolidation function, and a folder of worker-response files.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from crowdwise.io.platforms.forms import form_answers
from crowdwise.io.source import Record, Source
from crowdwise.io.votes import Ballot, Export, Request


def matches(source: Source) -> bool:
    """Recognise answers of annotators in the first record of the first file."""
    part = source.parts[0] if source.parts else source
    return part.kind in ("json", "jsonl") and any(True for _ in _votes(part.first, part))


def read(source: Source, request: Request) -> Export:
    """Return the votes; the item is the source, the object's id, or the folder of the response."""
    ballot = Ballot(source)
    for part in source.parts or (source,):
        for row, record in part.walk():
            for item, person, content in _votes(record, part):
                ballot.vote(row, item, person, form_answers(content, f"{part.name} {part.unit} {row}"))
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
