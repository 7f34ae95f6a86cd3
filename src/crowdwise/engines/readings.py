"""Groups of annotators who share errors, found in the votes before any fit.

1. Agreement beyond chance of every pair that met, and what skill explains of it (`crowdwise.engines.independence`).
2. Candidates by average linkage of the rest (`crowdwise.engines.linkage`).
3. A candidate is a group if its excess agreement is too large for chance (p-value times the number of sets of that size,
   C(A, m) m (m - 1), below `level`), is at least 0.2 of what is possible, has no member far looser than the others, and
   remains, at 0.1, given what those outside answered (`crowdwise.engines.shared_errors`). Else the loosest member goes,
   and again.
4. Skill is fitted again without the pairs inside groups, and 2 to 3 repeated, at most four times in all.

5. Nothing is found where independent annotators with confusion matrices of their own explain all that is left
   (`crowdwise.engines.latent_classes`).

Readings. Votes give a tree without a root: "three judges share errors" and "three are right, the other four share errors"
look the same. So the search starts from ordinary crowds (median and lower quartile of agreement) and from "those outside are
the group"; where a group agrees less with the others than by chance, also from "they are right, the others are the group".
Preferred is a reading in which no group has more than three quarters of the votes and most annotators carry the background.
Others that stand are kept beside it: which one is right cannot be seen in votes.

Notes
-----
Reported, never a silent change of labels. On crowds of independent annotators it hardly ever speaks, except where annotators
specialise in topics of their own; it misses groups with more than half of the votes; see the evidence on crowds.

Cost: O(pairs that were compared) per pass. The same votes give the same finding.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.data.crowd import Vocabularies
from crowdwise.data.meetings import SingleAnswers, label_counts
from crowdwise.engines.latent_classes import explained_by_classes
from crowdwise.engines.linkage import EXCESS, linked
from crowdwise.engines.shared_errors import Trial, confirmed_excess
from crowdwise.kernels.types import Flags, Floats, Integers

if TYPE_CHECKING:
    from crowdwise.engines.independence import Agreement, Background

__all__ = ["Reading", "SharedErrors", "readings_of"]


# What must remain of a group's excess given those outside, as a share of what is possible.
_CONFIRMED = 0.1
# So many standard deviations above zero are no chance, at 5 %.
_ABOVE = 1.645
_PASSES = 4
# A faction with more of the votes than this is the crowd.
_FACTION = 0.75
# Where a thorough search cuts the most skilled off: shares of the votes. Four are enough to begin from, for groups then find
# their members themselves.
_SHARES = (0.15, 0.3, 0.45, 0.6)


@dataclass(frozen=True, eq=False)
class SharedErrors:
    """One group of annotators who share errors.

    Attributes
    ----------
    members : [M]
        Codes of the annotators, sorted.
    excess : float
        Agreement beyond what skill explains, as a share of what is possible; about the correlation of errors.
    confirmed : float
        The same given what those outside answered.
    ratio, p_value : float
        Excess over its standard deviation, and the chance of any such group of that size among independent annotators.
    share : float
        Share of all votes.
    outside, outside_sd : float
        Agreement beyond chance with those outside the group, and its standard deviation over items. NaN where they never met
        anybody else.
    """

    members: Integers
    excess: float
    confirmed: float
    ratio: float
    p_value: float
    share: float
    outside: float
    outside_sd: float

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of the excess, by its standard deviation over items."""
        half = 1.96 * self.excess / self.ratio
        return max(self.excess - half, 0.0), min(self.excess + half, 1.0)

    @property
    def against(self) -> bool:
        """Whether they agree with those outside no more than chance lets them: colluders, not a family that errs together.

        Every other key agrees with the others a little more than chance would, by chance. So a family is what agrees more by a
        test at 5 %, or, however few the items, in a tenth of what is possible.
        """
        return self.outside <= min(_ABOVE * self.outside_sd, _CONFIRMED)

    @property
    def below(self) -> bool:
        """Whether they agree with those outside less than chance in these votes: enough to try the reverse."""
        return self.outside <= 0

    def names(self, votes: Vocabularies) -> list[Any]:
        """Ids of the annotators."""
        return [votes.annotators[a] for a in self.members]


@dataclass(frozen=True, eq=False)
class Reading:
    """One way to read the votes: the groups, [J], and the group of every annotator, [A], -1 for none."""

    groups: tuple[SharedErrors, ...]
    code: Integers

    @property
    def members(self) -> frozenset[tuple[int, ...]]:
        """Who is together, whatever the order of the groups."""
        return frozenset(tuple(group.members.tolist()) for group in self.groups)

    @property
    def correlation(self) -> Floats:
        """Excess agreement of every group, [J]."""
        return np.array([group.excess for group in self.groups])


def readings_of(votes: Annotations, answers: SingleAnswers, pairs: Agreement, level: float, thorough: bool) -> list[Reading]:
    """The readings that the votes leave, the preferred one first; see `crowdwise.engines.independence.find`."""
    search = _Search(votes, answers, pairs, level)
    kept = _standing(search)
    if thorough:
        more = list(search.turned())
        kept = kept or [Reading((), np.full(votes.n_annotators, -1))] * bool(more)
        for reading in more:
            if all(reading.members != other.members for other in kept):
                kept.append(reading)
    return kept


def _standing(search: _Search) -> list[Reading]:
    """The readings that the votes themselves leave, the preferred one first; none where independent annotators explain all."""
    # A reading with its rank: whether no group is the crowd itself, then how many annotators carry the background.
    ranked: list[tuple[tuple[bool, float], Reading]] = []
    without: list[Reading] = []
    for reading, carried, ordinary in search.readings():
        if reading.groups:
            ranked.append(((max(group.share for group in reading.groups) <= _FACTION, carried), reading))
        elif ordinary:
            return []
        else:
            without.append(reading)
    best = max(ranked, key=lambda entry: entry[0])[1]
    if explained_by_classes(search.answers, search.pairs, best.code):
        return []
    kept = [best]
    for (stands, carried), reading in ranked:
        # The preferred groups and more, around a background that few carry, are no other root.
        stands &= carried > 0 or not best.members <= reading.members
        if stands and all(reading.members != other.members for other in kept):
            kept.append(reading)
    # Without groups, those who seem to work against the others are the ones who are right.
    return [*kept, *without[:1]] if any(group.below for group in best.groups) else kept


class _Search:
    """Readings of one set of votes."""

    def __init__(self, votes: Annotations, answers: SingleAnswers, pairs: Agreement, level: float) -> None:
        self.answers, self.pairs, self.level = answers, pairs, level
        self.mass = np.bincount(votes.annotator, minlength=votes.n_annotators) / votes.n_votes
        self._n_items = votes.n_items

    @cached_property
    def counts_nl(self) -> Floats:
        """Answers of everybody by item and label, [N, L]: only groups that pass the test of pairs need them."""
        return label_counts(self.answers, self._n_items)

    def readings(self) -> Iterator[tuple[Reading, float, bool]]:
        """Readings from every start, by how much annotators carry each, and whether it began with an ordinary crowd."""
        pairs, turned, against = self.pairs, [], []
        nobody = np.full(pairs.n_annotators, -1)
        for quantile in (0.5, 0.25):
            reading, carried = self._read(pairs.level(quantile), nobody)
            yield reading, carried, True
            outside = np.where(reading.code < 0, 0, -1)
            if (outside == 0).sum() >= 2:
                turned.append(outside)
            if any(group.below for group in reading.groups):
                against.append(reading)
        for outside in turned:
            kept = ~_inside(pairs, outside)
            if kept.any():
                yield *self._read(pairs.level(0.5, kept), outside), False
        for reading in against:
            # Two factions: those who seem to collude may be the ones who are right.
            rest = reading.code >= 0
            within = rest[pairs.first] & rest[pairs.second]
            if within.any():
                yield *self._read(pairs.level(0.5, within), np.where(rest, -1, 0)), False

    def turned(self) -> Iterator[Reading]:
        """Readings that begin with the most skilled as a group, those with 15, 30, 45 and 60 % of the votes; and their reverse.

        Of two factions of about equal skill the cut may meet either, and which is the crowd is for others to say.
        """
        pairs = self.pairs
        typical = max(pairs.level(0.5), 0.0)
        nobody = np.zeros(len(pairs.first), bool)
        skill = pairs.explained_by_skill(pairs.unit_variance(typical), nobody, typical).skill
        order = np.argsort(-skill, kind="stable")
        total = np.cumsum(self.mass[order])
        for share in _SHARES:
            code = np.full(pairs.n_annotators, -1)
            code[order[: max(int(np.searchsorted(total, share)) + 1, 2)]] = 0
            reading = self._from_outside(code)
            if reading is not None and reading.groups:
                yield reading
                reverse = self._from_outside(np.where(reading.code < 0, 0, -1))
                if reverse is not None and reverse.groups:
                    yield reverse

    def _from_outside(self, code: Integers) -> Reading | None:
        """The reading that begins with these groups and the agreement of everybody else; None where nobody else met."""
        kept = ~_inside(self.pairs, code)
        return self._read(self.pairs.level(0.5, kept), code)[0] if kept.any() else None

    def _read(self, level: float, code: Integers) -> tuple[Reading, float]:
        """Alternate between the background and the groups; also the share of annotators that carry the background."""
        reading, skill = self._alternate(level, code, -1.0)
        if not reading.groups and skill.min() < self.pairs.lowest:
            # Skill alone explains the votes only with annotators who are worse than never right: they have one key.
            reading, skill = self._alternate(level, code, self.pairs.lowest)
        spread = np.abs(skill).sum() ** 2 / max((skill**2).sum(), 1e-9) / len(skill)
        carried = float(spread * (self.mass[skill > 0].sum() >= 0.5) - 0.2 * self.mass[reading.code >= 0].sum())
        return reading, carried

    def _alternate(self, level: float, code: Integers, lowest: float) -> tuple[Reading, Floats]:
        """The reading that this start leads to, where nobody's skill is below `lowest`, and the skill."""
        pairs, typical = self.pairs, self.pairs.level(0.5)
        unit_variance = pairs.unit_variance(max(typical, 0.0))
        found: tuple[SharedErrors, ...] = ()
        for done in range(_PASSES):
            inside = _inside(pairs, code)
            if inside.all():
                break
            if done == 0 and level == typical and lowest == -1.0 and not inside.any():
                background = pairs.ordinary
            else:
                background = pairs.explained_by_skill(unit_variance, inside, level, lowest)
            unit_variance = background.unit_variance
            tested = (self._tested(members, background) for members in linked(pairs, background, 0.75 * EXCESS))
            found = tuple(group for group in tested if group is not None)
            before, code = code, _codes(found, pairs.n_annotators)
            if not found or (code.max() == before.max() and ((code >= 0) == (before >= 0)).all()):
                break
        return Reading(found, code), background.skill

    def _tested(self, members: Integers, background: Background) -> SharedErrors | None:
        """The group in a candidate, without its loosest members; None where there is none."""
        trial, size = Trial(self.answers, self.pairs, background, members), self.pairs.n_annotators
        while True:
            m = len(trial.members)
            by_member = trial.by_member
            loosest = int(by_member.argmin())
            loose = m > 2 and by_member[loosest] < 0.5 * np.median(by_member)
            if trial.excess >= EXCESS and not loose:
                ways = math.lgamma(size + 1) - math.lgamma(m + 1) - math.lgamma(size - m + 1) + math.log(m * (m - 1))
                enough = math.log(self.level) - ways
                # The ratio last, and only where the model's variance alone would do: it sums over items, all else over pairs.
                if _log_above(trial.most_ratio) < enough and (log_p := _log_above(trial.ratio)) < enough:
                    log_p += ways
                    break
            if m == 2:
                return None
            trial.drop(loosest)
        confirmed = confirmed_excess(self.answers, self.counts_nl, trial.members)
        if confirmed < _CONFIRMED:
            return None
        share, p_value = float(self.mass[trial.members].sum()), math.exp(min(log_p, 0.0))
        outside = self._outside(trial.members)
        return SharedErrors(trial.members, trial.excess, confirmed, trial.ratio, p_value, share, *outside)

    def _outside(self, members: Integers) -> tuple[float, float]:
        """Agreement beyond chance between the members and everybody else, and its sd over items; NaN where they never met."""
        pairs, inside = self.pairs, np.zeros(self.pairs.n_annotators, bool)
        inside[members] = True
        across = inside[pairs.first] != inside[pairs.second]
        n = pairs.n[across]
        if not len(n):
            return math.nan, math.nan
        return float(n @ pairs.beyond[across] / n.sum()), self._outside_sd(members)

    def _outside_sd(self, members: Integers) -> float:
        """The standard deviation over items of that agreement: of sum_l m_l o_l, less what is expected of it by own shares."""
        chosen = self.answers.by(members)
        same_nl, alike_nl = chosen.label_sums(chosen.item, self._n_items), self._expected(chosen)
        rest_nl, unlike_nl = self.counts_nl - same_nl, self._expected(self.answers) - alike_nl
        beyond_n = (same_nl * rest_nl - alike_nl * unlike_nl).sum(axis=1)
        met_n = same_nl.sum(axis=1) * rest_nl.sum(axis=1)
        n = met_n.sum()
        off_n = beyond_n - met_n * beyond_n.sum() / n
        return float(np.sqrt(off_n @ off_n) / (n * self.pairs.scale))

    def _expected(self, answers: SingleAnswers) -> Floats:
        """The sum over the answers on every item of the label shares of who gave them, [N, L]."""
        return np.column_stack(
            [np.bincount(answers.item, column, self._n_items) for column in self.pairs.own_al[answers.annotator].T]
        )


def _log_above(x: float) -> float:
    """Log of the chance that a standard normal exceeds x; scipy's takes longer to import than the check takes."""
    if x < 30:
        return math.log(math.erfc(x / math.sqrt(2)) / 2)
    # erfc underflows; the next term of the series is 2e-8 at most.
    return -(x**2) / 2 - math.log(x * math.sqrt(2 * math.pi)) + math.log1p(-1 / x**2 + 3 / x**4)


def _inside(pairs: Agreement, code: Integers) -> Flags:
    """Pairs inside one group."""
    return np.asarray((code[pairs.first] == code[pairs.second]) & (code[pairs.first] >= 0))


def _codes(groups: tuple[SharedErrors, ...], n_annotators: int) -> Integers:
    code = np.full(n_annotators, -1)
    for index, group in enumerate(groups):
        code[group.members] = index
    return code
