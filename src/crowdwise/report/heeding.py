"""Annotators who seem to share errors, or are said to: which reading of the votes is taken, and what is done about it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import polars as pl

from crowdwise.data.annotations import Annotations
from crowdwise.engines.readings import Reading
from crowdwise.estimator.costs import Costs
from crowdwise.estimator.outcome import Result
from crowdwise.kernels.types import Integers
from crowdwise.methods.labels.grouping import given_groups
from crowdwise.report.dependence_text import (
    dependence_facts,
    dependence_lines,
    labeling_lines,
    other_labels_line,
    trusted_lines,
)
from crowdwise.report.text import count, some
from crowdwise.trust.crowd.cautious import believed, refitted
from crowdwise.trust.crowd.dependence import Dependence, colluding, is_majority, rooted, settled
from crowdwise.trust.crowd.fusion import fused, met
from crowdwise.trust.crowd.members import counted
from crowdwise.trust.crowd.pruning import refit_fused, refit_without

__all__ = ["Grouped", "Heeded", "grouped_by", "heed", "without_spammers"]


# What to do about annotators who share errors before spammers can be told.
_HEED = "aggregate --drop-colluders or --fuse-groups first"
_CHOOSE = "choose between the readings first (--trusted NAME or --gold FILE), with --drop-colluders or --fuse-groups"


@dataclass(frozen=True, eq=False)
class Heeded:
    """What is left of a fit: the result to write, facts for JSON, and the labels by every reading."""

    result: Result
    found: Dependence
    facts: dict[str, Any] = field(default_factory=dict)
    readings: Sequence[Result] = ()
    dropped: Sequence[Any] = ()
    #: The groups that count as one in the result, where they do.
    grouped: Grouped | None = None
    #: Whether the labels come from other votes than those of the fit.
    changed: bool = False

    def frame(self, items: pl.DataFrame, costs: Costs | None = None) -> pl.DataFrame:
        """The label of every item, and its label by every reading, reading_1, reading_2, ...; by `costs`, where they decide."""
        return items.select("item", "label").hstack(self._readings(costs))

    def document(self, costs: Costs | None = None) -> dict[str, Any]:
        """Everything, for JSON."""
        found = dict(self.facts)
        if len(self.readings) > 1:
            found["labels_by_reading"] = [column.to_list() for column in self._readings(costs)]
        return found | ({"dropped_annotators": list(self.dropped)} if self.dropped else {})

    def _readings(self, costs: Costs | None) -> list[pl.Series]:
        found = []
        for number, reading in enumerate(self.readings, start=1):
            items = reading.items_frame()
            items = items if costs is None else costs.applied(items, reading.posterior)
            found.append(items["label"].alias(f"reading_{number}"))
        return found

    def without_spammers(self, fdr: float, say: Callable[[str], None]) -> Heeded:
        """The same, fitted again without spammers, who are listed; `fdr` is the share of wrong flags to expect among them."""
        from crowdwise.trust.crowd import spammers

        flagged = spammers.score(self.result, fdr=fdr).flagged
        result, gone = without_spammers(self.result, flagged, self.found, say, changed=self.changed)
        return replace(self, result=result, dropped=[*self.dropped, *gone], changed=self.changed or bool(gone))


def heed(
    result: Result,
    found: Dependence,
    trusted: Sequence[str],
    say: Callable[[str], None],
    *,
    fuse: bool = False,
    drop: bool = False,
    given: bool = False,
) -> Heeded:
    """Say that annotators share errors, and lower confidence; count them as one or leave them out where asked.

    Known labels and trusted annotators choose among the readings that stand; to change labels, among more.
    """
    votes, dropped = result.votes, list[Any]()
    found = rooted(result, trusted) if fuse or drop else settled(result, found, trusted)
    for line in trusted_lines(found, votes, trusted):
        say(line)
    if drop:
        dropped = colluding(votes, found)
    if not found:
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
    if not changed and len(readings) == 1:
        say(other_labels_line(votes, result, readings[0]))
    lowered = believed(result, (other.posterior for other in others))
    grouped = Grouped(votes, met(votes, found.readings[0].code)[0], result.votes) if fuse else None
    return Heeded(lowered, found, {"dependence": dependence_facts(found, votes)}, readings, dropped, grouped, changed)


def without_spammers(
    result: Result, flagged: list[Any], found: Dependence, say: Callable[[str], None], *, changed: bool = False
) -> tuple[Result, list[Any]]:
    """Refit without the flagged, and say who they are; nobody goes where factions exist, and never most of a crowd.

    `changed` says that the labels are already those of the first reading `found`.
    """
    why = ""
    # A fit that follows one of two factions, or only may, says nothing of those who disagree with it.
    if flagged and len(found.readings) > int(changed):
        first = _CHOOSE if len(found.readings) > 1 else _HEED
        why = f"where annotators share errors, those who disagree with them look like spammers; {first}"
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


@dataclass(frozen=True, eq=False)
class Grouped:
    """Votes as they were read, the group of every annotator, [A], -1 for those who stand alone, and the votes of groups."""

    votes: Annotations
    code: Integers
    fused: Annotations

    def people(self, result: Result) -> pl.DataFrame:
        """The table of annotators of a fit to the fused votes, in which a group has the votes of its members."""
        if self.fused is self.votes:
            return result.annotators_frame()
        return counted(result.annotators_frame(), self.votes, self.code, self.names, result.codes)

    def items(self, items: pl.DataFrame) -> pl.DataFrame:
        """The table of items of a fit to the fused votes, with the votes of all members."""
        return items.with_columns(pl.Series("n_votes", self.votes.votes_per_item))

    @property
    def facts(self) -> dict[str, Any]:
        """What was read, for JSON."""
        return {"n_votes": self.votes.n_votes, "n_annotators": self.votes.n_annotators}

    @property
    def names(self) -> list[str]:
        """The groups that count as one."""
        alone = int((self.code < 0).sum())
        return [] if self.fused is self.votes else [str(name) for name in self.fused.annotators[alone:]]

    def named(self, table: pl.DataFrame) -> pl.DataFrame:
        """A table of single annotators with the groups as they were given, before its flags."""
        if not self.names:
            return table
        groups = self.names
        pairs = zip(self.votes.annotators.tolist(), self.code.tolist(), strict=True)
        group = {name: groups[code] for name, code in pairs if code >= 0}
        names = [group.get(name) for name in table["annotator"].to_list()]
        rest = table.drop("group", strict=False)
        return rest.insert_column(rest.columns.index("flags"), pl.Series("group", names, dtype=pl.String))

    def explains(self, reading: Reading) -> bool:
        """Whether every group of a reading of the votes lies inside one that is given."""
        inside = (self.code[group.members] for group in reading.groups)
        return all(codes[0] >= 0 and (codes == codes[0]).all() for codes in inside)


def grouped_by(votes: Annotations, families: dict[str, str], path: Path, notes: list[str]) -> Grouped:
    """Make one annotator of every group of a table; `notes` say which."""
    given, names = given_groups(votes, families)
    absent = sorted({str(name) for name in families} - {str(name) for name in votes.annotators})
    if absent:
        notes.append(f"{count(len(absent), 'name')} of {path} gave no votes: {some(absent, 5)}")
    code, left = met(votes, given, names)
    apart = [name for name in names if name not in (left or ())]
    if left and apart:
        notes.append(f"no two members of {some(apart, 5)} voted on the same item, so they count alone")
    if not left:
        notes.append("no group has two annotators who voted on one item, so everybody counts alone")
        return Grouped(votes, code, votes)
    size = int((code >= 0).sum())
    notes.append(f"{count(size, 'annotator')} count as {count(len(left), 'group')}: {some(left, 5)}{', ...' * (len(left) > 5)}")
    return Grouped(votes, code, fused(votes, code, left))
