"""peerannot: answers.json, a mapping from item to a mapping from annotator to label."""

from __future__ import annotations

from dataclasses import replace

from crowdwise.data.matrices import seem_counts
from crowdwise.errors import InputError
from crowdwise.io.keyed import is_keyed
from crowdwise.io.source import Source
from crowdwise.io.tallies import tallied
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
    """Return the votes; keys are text in JSON, so plain integers are restored.

    Transposed, the outer keys are annotators. Where there are fewer of them than of inner ones, they may be.
    """
    if not isinstance(source.document, dict):
        raise InputError(f"{source.name}: expected {{item: {{annotator: label}}}}, got {type(source.document).__name__}")
    if request.format is None and not request.transposed:
        _refuse_other_readings(source, request)
    ballot = Ballot(source, untyped=True)
    for row, (outer, votes) in enumerate(source.document.items(), start=1):
        if not isinstance(votes, dict):
            raise InputError(f"{source.name} record {row}: item {outer!r} should hold {{annotator: label}}, got {votes!r:.40}")
        for inner, label in votes.items() or [(None, None)]:
            item, annotator = (inner, outer) if request.transposed else (outer, inner)
            if item is not None:
                ballot.item(item)
            if inner is not None:
                ballot.vote(row, item, annotator, {"label": label})
    names = ("annotator", "item") if request.transposed else ("item", "annotator")
    request.notes.append(
        f"{source.name}: {names[0]} = the outer key, {names[1]} = the inner key"
        f"{'' if request.transposed else ' (--transposed reads them the other way round)'}"
    )
    return ballot.export(request.question)


def _refuse_other_readings(source: Source, request: Request) -> None:
    """Refuse a mapping whose inner keys may be items, or classes with the counts of their votes."""
    entries = source.document
    inner = list(dict.fromkeys(key for votes in entries.values() for key in votes))
    ways = {
        name: replace(request, **given).command(source.name)
        for name, given in (
            ("items", {"format": "peerannot"}),
            ("people", {"transposed": True}),
            ("counts", {"format": "counts"}),
        )
    }
    if len(inner) < len(entries) and all(type(value) is int for votes in entries.values() for value in votes.values()):
        table = tallied(list(entries.values()))
        if table is not None and seem_counts(table):
            raise InputError(
                f"{source.name}: {next(iter(entries))!r} holds {next(iter(entries.values()))!r:.60}: counts of votes per class,"
                f" or labels of annotators. If they are counts: {ways['counts']}; if they are labels: {ways['items']}"
            )
    if 1 < len(entries) < len(inner):
        raise InputError(
            f"{source.name}: {len(entries):,} outer keys such as {next(iter(entries))!r} and {len(inner):,} inner ones such as "
            f"{inner[0]!r}: which are the annotators? If the outer ones are: {ways['people']}; if the inner ones are: "
            f"{ways['items']}"
        )
