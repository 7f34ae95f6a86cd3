"""Annotators who seem to share errors: in a few lines for people, and as data for JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from crowdwise.report.text import count, number, some

if TYPE_CHECKING:
    from crowdwise.data.crowd import Vocabularies
    from crowdwise.trust.crowd.dependence import Dependence, Reading, SharedErrors

__all__ = ["dependence_facts", "dependence_lines"]


def dependence_lines(found: Dependence, votes: Vocabularies, most: int = 3) -> Iterator[str]:
    """That annotators seem to share errors, what it means for the labels, and what to do; nothing where nobody does."""
    if not found:
        return
    for group in found.groups[:most]:
        yield f"warning: {_shared(group, votes)}"
    if len(found.groups) > most:
        yield f"warning: so do {count(len(found.groups) - most, 'more group')}"
    for other in found.readings[1:2]:
        yield f"the votes can also be read so that {_who(other, votes)} share errors; which is right cannot be seen in votes"
    yield "labels are as fitted; confidence is lowered to what is left if annotators who share errors count almost as one"
    yield (
        "next: name those who belong together (aggregate --groups families.csv, with the columns annotator, group) or "
        "somebody to rely on (--trusted NAME), or check some labels: crowdwise audit"
    )


def _shared(group: SharedErrors, votes: Vocabularies) -> str:
    chance = "p < 0.0001" if group.p_value < 1e-4 else f"p = {number(group.p_value)}"
    who = f"{count(len(group.members), 'annotator')} seem to share errors: {_names(group, votes)}"
    why = f"they agree in {100 * group.excess:.0f} % of the cases in which independent annotators of their skill would not"
    return f"{who} ({100 * group.share:.0f} % of the votes; {why}; {chance})"


def _who(reading: Reading, votes: Vocabularies) -> str:
    """The largest group of a reading, by name."""
    return _names(max(reading.groups, key=lambda group: group.share), votes)


def _names(group: SharedErrors, votes: Vocabularies, most: int = 5) -> str:
    names = group.names(votes)
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return some(names, most) + more


def dependence_facts(found: Dependence, votes: Vocabularies) -> list[list[dict[str, Any]]]:
    """The groups of every reading as data, the preferred reading first."""
    return [
        [
            {
                "annotators": group.names(votes),
                "excess_agreement": group.excess,
                "p_value": group.p_value,
                "share_of_votes": group.share,
            }
            for group in reading.groups
        ]
        for reading in found.readings
    ]
