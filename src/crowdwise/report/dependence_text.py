"""Annotators who seem to share errors: in a few lines for people, and as data for JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from crowdwise.report.text import count, number, one_line, some

if TYPE_CHECKING:
    from crowdwise.data.annotations import Annotations
    from crowdwise.data.crowd import Vocabularies
    from crowdwise.estimator.outcome import Result
    from crowdwise.trust.crowd.dependence import Dependence, Reading, SharedErrors

__all__ = ["dependence_facts", "dependence_lines", "labeling_lines", "other_labels_line", "trusted_lines"]

_FITTED = "labels are as fitted; confidence is lowered to what is left if annotators who share errors count almost as one"
_DISPUTED = (
    "check some labels in which the readings differ (crowdwise audit --decide 20 -o FILE draws them) and name them as known "
    "(--gold FILE)"
)
# What was done, and what it means for the labels.
_DONE = {
    "fitted": _FITTED,
    "chosen": _FITTED,
    "given": _FITTED,
    "fused": "labels are those with every group counted as one annotator",
    "dropped": "labels are those without the colluders",
    "nobody": "nobody is dropped: no minority works against the others; labels are as fitted, with lower confidence",
    "undecided": "nobody is dropped: either may be the colluders; labels are as fitted, with lower confidence",
    "judged": (
        "accuracies are as fitted, where annotators who share errors confirm each other: theirs may be too high and those of "
        "the others too low, so that honest annotators may look like spammers"
    ),
}


def dependence_lines(found: Dependence, votes: Vocabularies, done: str = "fitted", most: int = 3) -> Iterator[str]:
    """That annotators seem to share errors, what it means for the labels, and what to do; nothing where nobody does."""
    if not found:
        return
    if not found.groups:
        yield "warning: annotators may share errors, though what is known speaks rather for a reading in which nobody does"
    for group in found.groups[:most]:
        yield f"warning: {_shared(group, votes)}"
    if len(found.groups) > most:
        yield f"warning: so do {count(len(found.groups) - most, 'more group')}"
    # The flags of annotators come with a note that says it.
    for other in found.readings[1:2] if done != "judged" else ():
        yield f"the votes can also be read so that {_who(other, votes)}; which is right cannot be seen in votes"
    yield _DONE[done]
    # Labels on which the readings agree do not choose between them, and an audit draws these more often.
    check = _DISPUTED if len(found.readings) > 1 else "check some labels: crowdwise audit"
    if done == "fitted":
        yield (
            "next: name those who belong together (aggregate --groups families.csv, with the columns annotator, group, which "
            f"crowdwise annotators -o FILE writes of those found) or somebody to rely on (--trusted NAME), or {check}; then "
            "aggregate --fuse-groups counts those who share errors as one"
        )
    elif done == "given":
        # What names single annotators does not go with groups.
        yield f"next: add those who belong together to the table of --groups, or {check}"
    elif done == "judged":
        yield (
            "next: name those who belong together (annotators --groups families.csv, with the columns annotator, group, as -o "
            "FILE has them of those found), and everybody is judged by a fit in which every group counts as one"
        )
    elif done in ("chosen", "nobody"):
        yield "next: aggregate --fuse-groups counts those who share errors as one"
    elif len(found.readings) > 1:
        yield f"next: choose between the readings: name somebody to rely on (--trusted NAME), or {_DISPUTED}"


def trusted_lines(found: Dependence, votes: Annotations, trusted: Sequence[Any]) -> Iterator[str]:
    """That those who are to be trusted contradict the votes or each other, where they do; nothing else is wrong with it."""
    from crowdwise.trust.crowd.dependence import quarrels, trusted_codes

    who = trusted_codes(votes, trusted)
    if found and len(who) and all((reading.code[who] >= 0).any() for reading in found.readings):
        names = some([votes.annotators[a] for a in who], 5)
        if len(who) == 1:
            yield f"warning: --trusted {names} chooses nothing: however the votes are read, this annotator is one of the group"
        else:
            yield f"warning: --trusted {names} choose nothing: however the votes are read, one of them shares errors"
    for first, second, agree, n in quarrels(votes, who):
        yield (
            f"warning: {one_line(first)} and {one_line(second)}, both --trusted, agree no more than by chance ({agree:.0%} of "
            f"{count(n, 'common item')}); trust one of them"
        )


def labeling_lines(found: Dependence, votes: Annotations, readings: Sequence[Result], most: int = 3) -> Iterator[str]:
    """The labels by every reading beside each other, where there are two or more."""
    if len(readings) < 2:
        return
    for index, (reading, result) in enumerate(zip(found.readings, readings, strict=True), start=1):
        shares = ", ".join(
            f"{one_line(name)}: {number(int((result.codes == k).sum()))}" for k, name in enumerate(votes.classes[:5])
        )
        more = ", ..." if votes.n_classes > 5 else ""
        yield f"reading {index}, where {_who(reading, votes)}: {shares}{more}"
    differ, such = _differences(votes, readings[0], readings[1], most)
    yield f"they differ in {differ:,} of {count(votes.n_items, 'label')}{such}; aggregate --readings FILE writes both"


def other_labels_line(votes: Annotations, result: Result, reading: Result, most: int = 3) -> str:
    """In how many labels a fit differs from the same in which those who share errors count for less."""
    differ, such = _differences(votes, result, reading, most)
    if not differ:
        return "counted so, no label would be another"
    others = f"{differ:,} of {count(votes.n_items, 'label')} would be others{such}"
    return f"counted so, {others}; aggregate --readings FILE writes them"


def _differences(votes: Annotations, first: Result, second: Result, most: int) -> tuple[int, str]:
    """In how many labels two fits differ, and some of them in words."""
    differ = (first.codes != second.codes).nonzero()[0]
    shown = ", ".join(f"{one_line(votes.items[n])} ({first.labels[n]} or {second.labels[n]})" for n in differ[:most])
    return len(differ), f", such as that of {shown}" if len(differ) else ""


def _shared(group: SharedErrors, votes: Vocabularies) -> str:
    chance = "p < 0.0001" if group.p_value < 1e-4 else f"p = {number(group.p_value)}"
    who = f"{count(len(group.members), 'annotator')} seem to share errors: {_names(group, votes)}"
    low, high = (100 * end for end in group.interval)
    why = (
        f"they agree in {100 * group.excess:.0f} % ({low:.0f} to {high:.0f}) of the cases in which independent annotators of "
        "their skill would not"
    )
    against = "; with the others they agree no more than by chance" if group.against else ""
    return f"{who} ({100 * group.share:.0f} % of the votes; {why}; {chance}{against})"


def _who(reading: Reading, votes: Vocabularies) -> str:
    """Who shares errors by a reading: its largest groups by name, or nobody."""
    if not reading.groups:
        return "nobody shares errors"
    # Readings may differ in a smaller group alone.
    first, *others = sorted(reading.groups, key=lambda group: -group.share)[:3]
    return f"{_names(first, votes)} share errors" + "".join(f", and so do {_names(group, votes)}" for group in others)


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
                "excess_interval": list(group.interval),
                "agreement_with_others": group.outside,
                "p_value": group.p_value,
                "share_of_votes": group.share,
            }
            for group in reading.groups
        ]
        for reading in found.readings
    ]
