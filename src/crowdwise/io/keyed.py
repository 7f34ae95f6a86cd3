"""JSON with an object per item: votes as lists or comma-separated text, as a list of answers, or by annotator.

    {"7": {"annotators": "ann,bob", "annotations": "1,0"}}                       Le-Wi-Di
    {"7": {"annotators": [{"annotator_id": 1, "label": "normal"}, ...]}}          HateXplain
    {"7": {"annotations": {"ann": "1", "bob": "0"}}}

The key is the item; records of a list may be shaped alike, and name their item in a field.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from crowdwise.data.encode import ALIASES
from crowdwise.errors import InputError, listed
from crowdwise.io.advice import adapted
from crowdwise.io.cells import as_list
from crowdwise.io.exports import Ballot, Export, Request, column, taken_back
from crowdwise.io.json_text import record_lists
from crowdwise.io.lists import paired
from crowdwise.io.roles import by_words, find_item, naming_column
from crowdwise.io.source import Places, Record, Source
from crowdwise.io.tallies import repeats_itself

__all__ = ["has_answers", "is_keyed", "read_keyed", "refuse_wrapped", "vote_fields"]


def is_keyed(source: Source) -> bool:
    """Whether a JSON file is an object of objects in whose fields votes are found."""
    document = source.document if source.kind == "json" else None
    if not isinstance(document, dict) or not document or not all(isinstance(entry, dict) for entry in document.values()):
        return False
    return vote_fields(next(iter(document.values()))) is not None


def has_answers(source: Source) -> bool:
    """Whether records hold lists of answers that say who gave which: ``{"id": 7, "labels": [{"user": "ann", "label": 1}]}``."""
    if source.kind == "json" and not isinstance(source.document, list):
        return False
    found = next((vote_fields(record) for _, record in source.records[:50] if vote_fields(record)), None)
    if found is None or found[0] is not None:
        return False
    held: list[Any] = [record.get(found[1]) for _, record in source.records[:50]]
    mappings = [each for each in held if _is_mapping(each)]
    if mappings:
        # {"id": 7, "votes": {"ann": "cat"}}; whole numbers may be counts, see `crowdwise.io.counts`.
        return any(type(label) is not int for each in mappings for label in each.values())
    answers = [answer for each in held if _is_answers(each) for answer in each]
    return bool(answers) and all(len(_fields(answer, role)) == 1 for answer in answers for role in ("annotator", "label"))


def refuse_wrapped(source: Source) -> str | None:
    """Refuse one object that holds no votes by itself, by the names of its keys; lists of labels by id are counted."""
    document = source.document
    if not isinstance(document, dict):
        return None
    lists = record_lists(document)
    if lists:
        raise InputError(
            f"{source.name}: one object with several lists of records: {listed(map(repr, lists), 8)}; keep the list of votes "
            "alone in a file of its own"
        )
    if document and all(isinstance(value, list) for value in document.values()):
        if any(map(repeats_itself, document.values())):
            return "counts"
        way = adapted(source.name, {}, "--format", "counts")
        raise InputError(
            f"{source.name}: an object with a list for every key, such as {next(iter(document))!r}; if the keys are items and "
            f"the lists are the votes on them, of unknown people: {way}"
        )
    return None


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
    entries, key = _entries(source, request)
    first = next((entry for _, entry in entries if isinstance(entry, dict)), {})
    found = next((vote_fields(entry) for _, entry in entries if isinstance(entry, dict) and vote_fields(entry)), None)
    people = request.annotator or (found[0] if found else None)
    label = request.label or request.question or (found[1] if found else None)
    if label is None:
        raise InputError(
            f"{source.name}: no votes found in the entries, which have {listed(map(repr, first), 12)}; name the fields with "
            "--annotator and --label"
        )
    ballot = Ballot(source, untyped=True)
    for row, (item, entry) in enumerate(entries, start=1):
        place = f"{source.name} record {row} (key {item!r})"
        if not isinstance(entry, dict):
            raise InputError(f"{place}: expected an object {{...}}, got {type(entry).__name__}")
        ballot.item(item)
        for who, said, status in _votes(entry, people, label, place):
            if status is not None:
                ballot.skip(row, item, who, status)
            else:
                ballot.vote(row, item, who, {"label": said})
        if "gold" not in (people, label):
            ballot.known(row, item, entry)
    gold = ", known labels in 'gold'" if ballot.golden else ""
    request.notes.append(
        f"{source.name}: an entry per item, {key} is the item; annotators in {people or label!r}, labels in {label!r}{gold} "
        "(--annotator, --label choose otherwise)"
    )
    return ballot.export(None)


def _entries(source: Source, request: Request) -> tuple[list[tuple[Any, Any]], str]:
    """Items with what is said of them, and what names the item: the key of an object, or a field of records."""
    if source.kind == "json" and isinstance(source.document, dict):
        return list(source.document.items()), "whose key"
    if source.kind not in ("json", "jsonl", "parquet", "arrow"):
        raise InputError(f"{source.name}: expected JSON with an entry per item, got {source.kind}")
    records = [record for _, record in source.records]
    if not records:
        raise InputError(f"{source.name}: no records; expected one object per item")
    names = [name for name, value in records[0].items() if not isinstance(value, dict | list)]
    ids = pl.DataFrame({name: column([record.get(name) for record in records], Places(source.name)) for name in names})
    item = find_item(ids, request, source.name) or naming_column(ids, ids.columns)
    if item is None:
        raise InputError(f"{source.name}: no field names the item, once in every record; name it with --item")
    return [(record.get(item), record) for record in records], f"whose {item!r}"


def _votes(entry: Record, people: str | None, label: str, place: str) -> list[tuple[Any, Any, str | None]]:
    """Who said what of one item, and the status that takes it back, if one does."""
    said = _reached(entry, label)
    if said is None:
        return []
    if people is not None:
        return [(*pair, None) for pair in paired(_several(_reached(entry, people)), _several(said), place)]
    if isinstance(said, Mapping):
        return [(*pair, None) for pair in said.items()]
    if not _is_answers(said):
        raise InputError(f"{place}: {label!r} names no annotators; name their field with --annotator")
    return [(_inner(answer, "annotator", place), _inner(answer, "label", place), taken_back(answer)) for answer in said]


def _several(value: Any) -> Any:
    """Comma-separated text as a list."""
    return [part.strip() for part in value.split(",")] if isinstance(value, str) and as_list(value) is None else value


def _inner(answer: Record, role: str, place: str) -> Any:
    found = _fields(answer, role)
    if len(found) != 1:
        raise InputError(f"{place}: an answer has no field that is clearly the {role}: {listed(map(repr, answer), 12)}")
    return answer[found[0]]


def _fields(answer: Record, role: str) -> list[str]:
    """Fields of an answer that may play the role."""
    found = [key for key in answer if "".join(c for c in key.lower() if c.isalnum()) in ALIASES[role]]
    return found or by_words(list(answer), role)


def _reached(entry: Record, path: str) -> Any:
    """The value at a key, or at keys between points: "other_info.racist"."""
    if path in entry:
        return entry[path]
    for key, inner in entry.items():
        if isinstance(inner, dict) and path.startswith(f"{key}."):
            return _reached(inner, path[len(key) + 1 :])
    return None
