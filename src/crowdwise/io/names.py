"""The closer look at names of a file, once something in them asks for it."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from crowdwise.data.encode import as_text, tidy
from crowdwise.errors import DataWarning
from crowdwise.io.cells import checked_labels
from crowdwise.io.exports import Export, Request
from crowdwise.io.spelling import Speller, check_gold, known_gold, warn_of_damage

__all__ = ["check_gold", "known_gold", "look_at_annotators", "settled", "warn_of_known"]

_KNOWN = r"(?i)^(gold|golden|truth|ground.?truth|gold.?standard|majority|consensus|adjudicat\w*)$"


def settled(export: Export, request: Request, missing: Sequence[Any]) -> Export:
    """The export with one spelling per name; several answers in a cell are refused, and damaged ids warned about."""
    votes, gold, source = export.votes, export.gold, export.where.source
    speller = Speller(request, source, missing)
    label, known = tidy(votes["label"]), None if gold is None else tidy(gold["label"])
    if request.several != "split":
        label = checked_labels(label, export.where, request, missing)
    label, known = speller.unify("label", label, known, export.standing_for)
    n = votes.height
    # Items of votes, of gold and without either, in one column: they are one vocabulary.
    extra = [tidy(part) for part in (None if gold is None else gold["item"], export.items) if part is not None]
    items = _stacked([tidy(votes["item"]), *extra])
    people = _stacked([tidy(votes["annotator"]), *([] if export.annotators is None else [tidy(export.annotators)])])
    for column, what in ((items, "item"), (people, "annotator")):
        warn_of_damage(column, what, source)
    if request.annotators is None:
        warn_of_known(people, source)
    items, _ = speller.unify("item", items)
    people, _ = speller.unify("annotator", people)
    speller.say()
    columns = {"item": items[:n], "annotator": people[:n], "label": label}
    rest = items[n:]
    if gold is not None:
        gold = gold.with_columns(item=rest[: gold.height], label=known).unique(maintain_order=True)
        rest = rest[export.gold.height :]  # type: ignore[union-attr]
    return replace(
        export,
        votes=votes.with_columns(**columns),
        gold=gold,
        items=None if export.items is None else rest.unique(maintain_order=True),
        annotators=None if export.annotators is None else people[n:].unique().sort(),
    )


def look_at_annotators(people: pl.Series, times: pl.Series, source: str) -> None:
    """Say what reading in memory says of the names of annotators, of which each occurs once here, for so many votes."""
    warn_of_damage(people, "annotator", source)
    warn_of_known(people, source)
    Speller(Request(), source).unify("annotator", people, None, times)


def warn_of_known(people: pl.Series, source: str) -> None:
    """Warn of an annotator whose name says that the votes are known labels, or made of the others' votes."""
    if people.dtype == pl.String:
        names = people.unique().drop_nulls()
        found = sorted(names.filter(names.str.contains(_KNOWN)).to_list())
        if found:
            warnings.warn(
                f"{source}: {found[0]!r} votes as an annotator; if these are known labels, or made of the votes of others, "
                "take these rows out, and give known labels with --gold FILE (gold=...)",
                DataWarning,
                stacklevel=5,
            )


def _stacked(parts: list[pl.Series]) -> pl.Series:
    if len({part.dtype for part in parts}) > 1:
        parts = [as_text(part) for part in parts]
    return pl.concat(parts)
