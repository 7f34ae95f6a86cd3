"""peerannot: answers.json, a mapping from item to a mapping from annotator to label."""

from __future__ import annotations

from crowdwise.errors import InputError
from crowdwise.io.keyed import is_keyed
from crowdwise.io.source import Source
from crowdwise.io.votes import Ballot, Export, Request


def matches(source: Source) -> bool:
    """Recognise a mapping of mappings to plain values."""
    document = source.document if source.kind == "json" else None
    if is_keyed(source):
        # {"7": {"annotators": "ann,bob", "labels": "1,0"}}: fields, not annotators.
        return False
    return (
        isinstance(document, dict)
        and bool(document)
        and all(
            isinstance(votes, dict) and not any(isinstance(label, dict | list) for label in votes.values())
            for votes in document.values()
        )
    )


def read(source: Source, request: Request) -> Export:
    """Return the votes; keys are text in JSON, so plain integers are restored."""
    if not isinstance(source.document, dict):
        raise InputError(f"{source.name}: expected {{item: {{annotator: label}}}}, got {type(source.document).__name__}")
    ballot = Ballot(source, untyped=True)
    for row, (item, votes) in enumerate(source.document.items(), start=1):
        if not isinstance(votes, dict):
            raise InputError(f"{source.name} record {row}: item {item!r} should hold {{annotator: label}}, got {votes!r:.40}")
        ballot.item(item)
        for annotator, label in votes.items():
            ballot.vote(row, item, annotator, {"label": label})
    return ballot.export(request.question)
