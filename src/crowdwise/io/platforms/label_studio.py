"""Label Studio: the full JSON export, several annotations per task (https://labelstud.io/guide/task_format).

A result belongs to a control (`from_name`). Controls ask about the whole task (choices, ratings, taxonomies, ...), mark
regions of it (boxes, spans, ...), ask about one region (`perRegion`), or put things in order. `read` gives the answers about
whole tasks; `label_studio_regions` the others.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any

from crowdwise.errors import InputError
from crowdwise.io.source import Record, Source
from crowdwise.io.votes import Ballot, Export, Request

__all__ = ["annotations_of", "answers_of", "control_kinds", "item_of", "matches", "person_of", "read", "results_of"]

# Keys of values with one answer per vote; those of regions (rectanglelabels, ...) end in "labels".
_VALUES = ("choices", "rating", "number", "selected", "datetime", "taxonomy", "ranker", "labels")
_PLACE = ("x", "start", "startOffset", "points", "rle", "sequence", "ranges")
BOXES, SPANS, REGIONS, RANKING = "boxes", "spans", "regions", "a ranking"
# What reads a control that is no label of a whole task; {} is the file and the question.
_ELSEWHERE = {
    BOXES: "crowdwise regress {} (places), or crowdwise aggregate {} --type multilabel (which labels occur)",
    SPANS: "crowdwise spans {} (places), or crowdwise aggregate {} --type multilabel (which labels occur)",
    REGIONS: "crowdwise aggregate {} --type multilabel (which labels occur)",
    RANKING: "crowdwise rank {}",
}


def matches(source: Source) -> bool:
    """Recognise a task with annotations (completions, before version 1) that hold results."""
    if source.kind not in ("json", "jsonl"):
        return False
    first = source.first
    found = annotations_of(first)
    return isinstance(found, list) and (
        any(isinstance(entry, dict) and "result" in entry for entry in found) or (not found and {"data", "id"} <= first.keys())
    )


def read(source: Source, request: Request) -> Export:
    """Return the votes of annotations that were not cancelled, by question (`from_name`)."""
    wanted = request.question or request.label
    _check_control(source, wanted)
    ballot = Ballot(source)
    for row, task in source.walk():
        item = item_of(task)
        ballot.item(item)
        for annotation in annotations_of(task) or []:
            answers = {} if annotation.get("was_cancelled") else answers_of(annotation)
            if annotation.get("ground_truth"):
                ballot.gold(row, item, answers)
            else:
                ballot.vote(row, item, person_of(annotation), answers)
        for prediction in (task.get("predictions") or []) if request.predictions else []:
            if isinstance(prediction, dict):
                ballot.vote(row, item, f"model:{prediction.get('model_version') or 'unnamed'}", answers_of(prediction))
    return ballot.export(wanted)


def annotations_of(task: Record) -> Any:
    """The annotations of a task."""
    return task.get("annotations", task.get("completions"))


def item_of(task: Record) -> Any:
    """Return the task id; a file that was never imported has only its data."""
    if task.get("id") is not None:
        return task["id"]
    data = task.get("data")
    return next((value for value in data.values() if isinstance(value, str | int)), None) if isinstance(data, dict) else None


def person_of(annotation: Record) -> Any:
    """Return who completed it: a number, or the e-mail or id of an object."""
    person = annotation.get("completed_by")
    if isinstance(person, dict):
        return next((person[key] for key in ("email", "id", "username") if person.get(key) not in (None, "")), None)
    return person


def results_of(annotation: Record) -> Iterator[tuple[str, str, Record]]:
    """The question, what it asks for, and the whole result, of every result of an annotation."""
    for result in annotation.get("result") or []:
        value = result.get("value") if isinstance(result, dict) else None
        if isinstance(value, dict) and "from_name" in result:
            yield str(result["from_name"]), _kind(str(result.get("type", "")), value), result


def control_kinds(source: Source) -> dict[str, str]:
    """What every question of the export asks for."""
    kinds: dict[str, str] = {}
    for _, task in source.walk():
        for annotation in annotations_of(task) or []:
            kinds |= {question: kind for question, kind, _ in results_of(annotation)}
    return kinds


def _kind(control: str, value: Record) -> str:
    """What a result is: boxes, spans, other regions, a ranking, or the control's own name."""
    if control.startswith("rectangle") or "rectanglelabels" in value:
        return BOXES
    if control == "ranker":
        return RANKING
    placed = any(key in value for key in _PLACE)
    if control.endswith("labels") or (not control and any(key.endswith("labels") for key in value)):
        # Sound and series have times instead of characters, and no text that was marked.
        text = "text" in value or "startOffset" in value
        return SPANS if control in ("labels", "hypertextlabels", "paragraphlabels") and text else REGIONS
    return f"{control} per region" if placed and control else control or next(iter(value), "answer")


def answers_of(annotation: Record) -> dict[str, Any]:
    """Return the labels by question; a label that several regions have counts once."""
    answers: dict[str, Any] = {}
    for question, kind, result in results_of(annotation):
        value = result["value"]
        keys = (*_VALUES, *(key for key in value if key.endswith("labels")))
        if kind not in (BOXES, SPANS, REGIONS):
            # Beside marked text, "text" is what was marked; a text field has nothing else.
            keys = (*keys, "text")
        key = next((k for k in keys if k in value), None)
        if key is None:
            continue
        found = value[key] if isinstance(value[key], list) else [value[key]]
        if key == "taxonomy":
            found = [" > ".join(map(str, path)) if isinstance(path, list) else path for path in found]
        held = answers.setdefault(question, [])
        held += [label for label in found if kind not in (BOXES, SPANS, REGIONS) or label not in held]
    return answers


def _check_control(source: Source, wanted: str | None) -> None:
    """Refuse several questions, and what is no label of a whole task unless it is named, each with what reads it."""
    kinds = control_kinds(source)
    if wanted is None and len(kinds) > 1:
        named = ", ".join(f"{question!r} ({kind})" for question, kind in kinds.items())
        raise InputError(
            f"{source.name}: several questions: {named}. Pick one: question=... in Python, --question NAME on the command line"
            + _advice(source.name, kinds)
        )
    question = wanted if wanted in kinds else next(iter(kinds), None)
    kind = kinds.get(str(question), "")
    if question is not None and (kind == RANKING or (wanted is None and kind in _ELSEWHERE)):
        raise InputError(
            f"{source.name}: the question {question!r} marks {kind}, no label of a whole item"
            f"{_advice(source.name, {question: kind})}"
        )


def _advice(name: str, kinds: dict[str, str]) -> str:
    """The commands that read what is no label of a whole task; of several questions without repeating the file."""
    parts = []
    for question, kind in kinds.items():
        if kind in _ELSEWHERE:
            file = shlex.quote(name) if len(kinds) == 1 else "..."
            parts.append(f". For {question!r}: {_ELSEWHERE[kind].replace('{}', f'{file} --question {shlex.quote(question)}')}")
    return "".join(parts)
