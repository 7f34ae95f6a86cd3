"""Argilla: records as JSON, or flattened to columns by to_datasets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from crowdwise.io.source import Record, Source
from crowdwise.io.votes import Ballot, Export, Request


def matches(source: Source) -> bool:
    """Recognise nested responses, or columns <question>.responses and .responses.users."""
    if source.kind in ("json", "jsonl") and "fields" in source.first and isinstance(source.first.get("responses"), dict | list):
        return True
    return source.kind in ("json", "jsonl", "parquet", "arrow") and any(name.endswith(".responses") for name in source.columns)


def read(source: Source, request: Request) -> Export:
    """Return the votes of submitted responses."""
    ballot = Ballot(source)
    for row, record in _records(source):
        item = record.get("id")
        ballot.item(item)
        people: dict[Any, dict[str, Any]] = {}
        for person, question, value, status in _responses(record):
            people.setdefault(person, {})[question] = value if status in (None, "submitted") else None
        for agent, question, value in _suggestions(record) if request.predictions else ():
            people.setdefault(f"model:{agent or 'unnamed'}", {})[question] = value
        for person, answers in people.items():
            ballot.vote(row, item, person, answers)
    return ballot.export(request.question or request.label)


def _records(source: Source) -> Iterator[tuple[int, Record]]:
    if source.kind in ("json", "jsonl"):
        yield from source.walk()
        return
    names = [name for name in source.columns if name == "id" or ".responses" in name or ".suggestion" in name]
    yield from enumerate(source.table(names).frame.iter_rows(named=True), start=1)


def _responses(record: Record) -> Iterator[tuple[Any, str, Any, str | None]]:
    nested = record.get("responses")
    for question, given in nested.items() if isinstance(nested, dict) else ():
        for response in given if isinstance(given, list) else [given]:
            yield response.get("user_id"), question, response.get("value"), response.get("status")
    for response in nested if isinstance(nested, list) else ():
        if "values" in response:
            # Argilla 1: a response holds the answers to all questions.
            for question, given in (response["values"] or {}).items():
                yield response.get("user_id"), question, given.get("value"), response.get("status")
            continue
        yield response.get("user_id"), str(response.get("question_name")), response.get("value"), response.get("status")
    for name, values in record.items():
        if name.endswith(".responses"):
            people, states = record.get(f"{name}.users") or [], record.get(f"{name}.status") or []
            for index, value in enumerate(values or []):
                person = people[index] if index < len(people) else None
                yield person, name.removesuffix(".responses"), value, states[index] if index < len(states) else None


def _suggestions(record: Record) -> Iterator[tuple[Any, str, Any]]:
    nested = record.get("suggestions")
    for question, given in nested.items() if isinstance(nested, dict) else ():
        yield given.get("agent"), question, given.get("value")
    for given in nested if isinstance(nested, list) else ():
        yield given.get("agent"), str(given.get("question_name")), given.get("value")
    for name, value in record.items():
        if name.endswith(".suggestion") and value is not None:
            yield record.get(f"{name}.agent"), name.removesuffix(".suggestion"), value
