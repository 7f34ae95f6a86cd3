"""JSON with an object per item: votes as lists or comma-separated text, as a list of answers, or by annotator.

    {"7": {"annotators": "ann,bob", "annotations": "1,0"}}                       Le-Wi-Di
    {"7": {"annotators": [{"annotator_id": 1, "label": "normal"}, ...]}}          HateXplain
    {"7": {"annotations": {"ann": "1", "bob": "0"}}}

The key is the item; records of a list may be shaped alike, and name their item in a field.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crowdwise.data.encode import ALIASES
from crowdwise.errors import InputError, listed
from crowdwise.io.cells import as_list
from crowdwise.io.exports import Ballot, Export, Request
from crowdwise.io.lists import paired
from crowdwise.io.roles import by_words
from crowdwise.io.source import Record, Source

__all__ = ["is_keyed", "read_keyed", "vote_fields"]


def is_keyed(source: Source) -> bool:
    """Whether a JSON file is an object of objects in whose fields votes are found."""
    document = source.document if source.kind == "json" else None
    if not isinstance(document, dict) or not document or not all(isinstance(entry, dict) for entry in document.values()):
        return False
    return vote_fields(next(iter(document.values()))) is not None


def vote_fields(record: Record) -> tuple[str | None, str] | None:
    """The fields of annotators and of labels, or None; a field that holds both is the label's alone."""
    nested = [key for key, value in record.items() if _is_answers(value) and (_names(key, "annotator") or _names(key, "label"))]
    if nested:
        return None, nested[0]
    people = [key for key in record if _names(key, "annotator") and _is_many(record[key])]
    labels = [key for key in record if _names(key, "label") and _is_many(record[key]) and key not in people]
    if len(people) == 1 and len(labels) == 1:
        return people[0], labels[0]
    mapped = [key for key in record if _names(key, "label") and _is_mapping(record[key])]
    return (None, mapped[0]) if len(mapped) == 1 else None


def _names(key: str, role: str) -> bool:
    return bool(by_words([key], role))


def _is_many(value: Any) -> bool:
    return isinstance(value, list) or (isinstance(value, str) and bool(value))


def _is_answers(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(part, dict) for part in value)


def _is_mapping(value: Any) -> bool:
    return isinstance(value, dict) and bool(value) and not any(isinstance(part, dict | list) for part in value.values())


def read_keyed(source: Source, request: Request) -> Export:
    """Read the votes of every entry; keys are text, so plain integers are restored."""
    if not isinstance(source.document, dict):
        raise InputError(f"{source.name}: expected an object with an entry per item, got {type(source.document).__name__}")
    entries = source.document
    first = next((entry for entry in entries.values() if isinstance(entry, dict)), {})
    found = vote_fields(first)
    people = request.annotator or (found[0] if found else None)
    label = request.label or request.question or (found[1] if found else None)
    if label is None:
        raise InputError(
            f"{source.name}: no votes found in the entries, which have {listed(map(repr, first), 12)}; name the fields with "
            "--annotator and --label"
        )
    ballot = Ballot(source, untyped=True)
    for row, (item, entry) in enumerate(entries.items(), start=1):
        place = f"{source.name} record {row} (key {item!r})"
        if not isinstance(entry, dict):
            raise InputError(f"{place}: expected an object {{...}}, got {type(entry).__name__}")
        ballot.item(item)
        for who, said in _votes(entry, people, label, place):
            ballot.vote(row, item, who, {"label": said})
    request.notes.append(
        f"{source.name}: an entry per item, whose key is the item; annotators in {people or label!r}, labels in {label!r} "
        "(--annotator, --label choose otherwise)"
    )
    return ballot.export(None)


def _votes(entry: Record, people: str | None, label: str, place: str) -> list[tuple[Any, Any]]:
    """Who said what of one item."""
    said = _reached(entry, label)
    if said is None:
        return []
    if people is not None:
        return paired(_several(_reached(entry, people)), _several(said), place)
    if isinstance(said, Mapping):
        return list(said.items())
    if not _is_answers(said):
        raise InputError(f"{place}: {label!r} names no annotators; name their field with --annotator")
    return [(_inner(answer, "annotator", place), _inner(answer, "label", place)) for answer in said]


def _several(value: Any) -> Any:
    """Comma-separated text as a list."""
    return [part.strip() for part in value.split(",")] if isinstance(value, str) and as_list(value) is None else value


def _inner(answer: Record, role: str, place: str) -> Any:
    found = [key for key in answer if "".join(c for c in key.lower() if c.isalnum()) in ALIASES[role]]
    found = found or by_words(list(answer), role)
    if len(found) != 1:
        raise InputError(f"{place}: an answer has no field that is clearly the {role}: {listed(map(repr, answer), 12)}")
    return answer[found[0]]


def _reached(entry: Record, path: str) -> Any:
    """The value at a key, or at keys between points: "other_info.racist"."""
    if path in entry:
        return entry[path]
    for key, inner in entry.items():
        if isinstance(inner, dict) and path.startswith(f"{key}."):
            return _reached(inner, path[len(key) + 1 :])
    return None
