"""Annotators who seem to share errors, in a command: which reading of the votes is taken, and what is done about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from crowdwise.cli.job import count, note, say, some
from crowdwise.report.dependence_text import dependence_facts, dependence_lines, labeling_lines, trusted_lines
from crowdwise.trust.crowd.cautious import believed, refitted
from crowdwise.trust.crowd.dependence import colluding, is_majority, rooted, settled
from crowdwise.trust.crowd.pruning import refit_fused, refit_without

if TYPE_CHECKING:
    import polars as pl

    from crowdwise.estimator.costs import Costs
    from crowdwise.estimator.outcome import Result
    from crowdwise.trust.crowd.dependence import Dependence

__all__ = ["Heeded", "heed", "without_spammers"]


@dataclass(frozen=True, eq=False)
class Heeded:
    """What is left of a fit: the result to write, facts for JSON, and the labels by every reading."""

    result: Result
    found: Dependence
    facts: dict[str, Any] = field(default_factory=dict)
    readings: Sequence[Result] = ()
    dropped: Sequence[Any] = ()
    #: Whether the labels come from other votes than those of the fit.
    changed: bool = False

    def frame(self, costs: Costs | None = None) -> pl.DataFrame:
        """The label of every item, and its label by every reading, reading_1, reading_2, ...; by `costs`, where they decide."""

        def labels(result: Result) -> pl.Series:
            items = result.items_frame()
            return (items if costs is None else costs.applied(items, result.posterior))["label"]

        items = self.result.items_frame().select("item", label=labels(self.result))
        return items.with_columns(
            labels(reading).alias(f"reading_{number}") for number, reading in enumerate(self.readings, start=1)
        )


def heed(
    result: Result,
    found: Dependence,
    trusted: Sequence[str],
    *,
    fuse: bool = False,
    drop: bool = False,
    given: bool = False,
) -> Heeded:
    """Say that annotators share errors, quiet or not, and lower confidence; count them as one or leave them out where asked.

    Known labels and trusted annotators choose among the readings that stand; to change labels, among more.
    """
    votes, dropped = result.votes, list[Any]()
    found = rooted(result, trusted) if fuse or drop else settled(result, found, trusted)
    for line in trusted_lines(found, votes, trusted):
        say(line)
    if drop:
        dropped = colluding(votes, found)
    if not found:
        if fuse or drop:
            note("no annotators seem to share errors: labels are as fitted")
        return Heeded(result, found)
    # The reading that is preferred may have no groups, beside one that has.
    fuse = fuse and bool(found.groups)
    undropped = "undecided" if len(found.readings) > 1 else "nobody"
    known = bool(trusted) or votes.n_gold > 0
    untouched = "given" if given else "chosen" if known and len(found.readings) == 1 else "fitted"
    done = "fused" if fuse else "dropped" if dropped else undropped if drop else untouched
    for line in dependence_lines(found, votes, done):
        say(line)
    changed = fuse or bool(dropped)
    # Where the first reading is taken, the labels are its own, and the others are left to doubt them.
    others = [refitted(result, votes, reading).result_ for reading in found.readings[changed:]]
    if dropped:
        # Nobody is dropped silently.
        say(f"dropped {count(len(dropped), 'colluder')}: {some(dropped, len(dropped))}")
        result = refit_without(result, dropped)
    elif fuse:
        result = refit_fused(result, found.readings[0])
    readings = [result, *others] if changed else others
    for line in labeling_lines(found, votes, readings):
        say(line)
    lowered = believed(result, (other.posterior for other in others))
    facts = {"dependence": dependence_facts(found, votes)}
    if len(readings) > 1:
        facts["labels_by_reading"] = [reading.labels.tolist() for reading in readings]
    return Heeded(lowered, found, facts, readings, dropped, changed)


def without_spammers(result: Result, flagged: list[Any], unsettled: bool) -> tuple[Result, list[Any]]:
    """Refit without the flagged and name them, quiet or not; nobody goes where factions exist, and never most of a crowd."""
    why = ""
    if flagged and unsettled:
        why = (
            "where annotators share errors, those who disagree with them look like spammers; "
            "aggregate --drop-colluders or --fuse-groups first"
        )
    elif is_majority(result.votes, flagged):
        why = (
            f"{len(flagged)} of {result.votes.n_annotators} annotators look like some, and most of a crowd is never dropped; "
            "a faction may have taken over the fit: check some labels (crowdwise audit)"
        )
    if why:
        say(f"warning: no spammers are dropped: {why}")
        return result, []
    if flagged:
        say(f"dropped {count(len(flagged), 'spammer')}: {some(flagged, len(flagged))}")
    return refit_without(result, flagged), flagged
