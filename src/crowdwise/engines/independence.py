"""Whether independent annotators explain the votes: agreement beyond chance, and how much of it skill alone explains.

For every two annotators a, b who met on n_ab items, with p_a their own label shares (two pseudo-votes of the overall shares t),

    s_ab = (agreements / n_ab - sum_l p_al p_bl) / scale,     scale = 1 - sum_l t_l^2

is agreement beyond chance. What skill and common difficulty explain of it is rank one, s_ab = u_a u_b, plus a misfit of
variance tau^2. A pair's variance is that of its meetings, E (1 - E) / scale^2 / n_ab with E the expected agreement, plus tau^2.

Groups that share errors only add agreement. So pairs above the fit by more than two standard deviations lose weight as
(2 / z)^2, tau^2 is estimated from pairs below the fit, and every u_a is shrunk to the average annotator's. Nobody is worse than
never right, u_a = -(1 - scale) / scale (of K even classes, -1 / (K - 1)); who must be, to explain the votes, has one key with
others. Where no pair stands above the fit and nobody is worse than never right, independent annotators explain the votes; else
`crowdwise.engines.readings` looks for those who share errors.

Symbols
-------
s_p, n_p : [P]       agreement beyond chance and common items of the pairs that met
own_al : [A, L]      label shares of every annotator
u_a : [A]            skill, as far as agreement shows it

Notes
-----
Cost: O(sum of L_n^2) for L_n answers on an item, on items drawn with a fixed seed beyond four million pairs of answers or
beyond as many as show anything new (`enough_meetings`); then O(P) per round, at most 60 rounds, for P pairs that
met, of the annotators with most answers: at most 20,000, or one for 25 votes up to 200,000. No round where nobody met often
enough to stand out. Memory in pairs that met. The same votes give the same finding.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.data.meetings import MOST_MEETINGS, Pairs, SingleAnswers, agreements, sampled
from crowdwise.engines.linkage import EDGE, EXCESS
from crowdwise.kernels.numerics import of_type, segment_sum
from crowdwise.kernels.types import Flags, Floats, Integers

if TYPE_CHECKING:
    from crowdwise.engines.readings import Reading, SharedErrors

__all__ = ["LEVEL", "MOST_PAIRS", "Agreement", "Background", "Dependence", "agreement_of", "enough_meetings", "find"]
__all__ += ["weighted_quantile"]


MOST_PAIRS = 200_000
# So many pairs are always compared: those of 200 annotators. Beyond, one for so many votes, so that the rounds over pairs cost
# no more than those of a fit over votes.
_FEW_PAIRS, _VOTES_PER_PAIR = 20_000, 25
# The chance that any group of independent annotators is reported.
LEVEL = 0.01
# The oracle's constants: where a pair starts to lose weight, pseudo-meetings with an average annotator, rounds and step.
_FAR, _PSEUDO, _ROUNDS, _STEP = 2.0, 2.0, 60, 1e-4
# Entries of a block of products of label shares: some tens of megabytes.
_BLOCK = 2**22
# What was found in votes that are still in use: commands lower confidence by it, and pages tell of it.
_FOUND: WeakKeyDictionary[Annotations, dict[tuple[float, bool, int, int], Dependence]] = WeakKeyDictionary()


@dataclass(frozen=True, eq=False)
class Agreement:
    """Agreement beyond chance of the pairs that met, sorted by (first, second)."""

    first: Integers
    second: Integers
    n: Floats
    agree: Floats
    beyond: Floats
    chance: Floats
    own_al: Floats
    shares_l: Floats
    #: Whether the votes are so many that compiled loops are loaded anyway.
    compiled: bool = False

    @property
    def n_annotators(self) -> int:
        """Number of annotators, A."""
        return len(self.own_al)

    @cached_property
    def scale(self) -> float:
        """What agreement beyond chance is measured in."""
        return float(1 - (self.shares_l**2).sum())

    @cached_property
    def lowest(self) -> float:
        """The skill of someone who is never right: -1 / (K - 1) where labels are even. Those who agree more share errors."""
        return -min((1 - self.scale) / max(self.scale, 1e-12), 1.0)

    @cached_property
    def key(self) -> Integers:
        """One number per pair, sorted: first * A + second."""
        return self.first * self.n_annotators + self.second

    def unit_variance(self, skill_p: Floats | float) -> Floats:
        """Variance of one meeting where skill explains `skill_p` of agreement, [P]."""
        expected = np.clip(self.chance + self.scale * skill_p, 0.02, 0.98)
        return np.asarray(expected * (1 - expected) / self.scale**2)

    def level(self, quantile: float, among: Flags | None = None) -> float:
        """This quantile of agreement beyond chance over meetings, of all pairs or of some."""
        kept = slice(None) if among is None else among
        return weighted_quantile(self.beyond[kept], self.n[kept], quantile)

    def explained_by_skill(self, unit_variance: Floats, inside: Flags, level: float, lowest: float = -1.0) -> Background:
        """Fit u_a robustly to the pairs that are not `inside` a known group; twice, with the variance renewed.

        The start is a crowd in which everybody's skill explains this `level` of agreement. Nobody's is below `lowest`.
        """
        start, before = np.full(self.n_annotators, np.sqrt(max(level, 0.02))), None
        for _ in range(2):
            skill, misfit = _rank_one(self, unit_variance, ~inside, start, lowest, before)
            if self.compiled:
                # Few votes keep to the oracle, whose second fit starts like the first.
                start, before = skill, misfit
            explained = skill[self.first] * skill[self.second]
            unit_variance = self.unit_variance(explained)
        return Background(skill, misfit, explained, unit_variance, unit_variance / self.n + misfit)

    @cached_property
    def ordinary(self) -> Background:
        """What skill explains where nobody is in a group and the median of agreement is everybody's level."""
        level = self.level(0.5)
        nobody = np.zeros(len(self.first), bool)
        return self.explained_by_skill(self.unit_variance(max(level, 0.0)), nobody, level)

    def ratio(self, explained: Floats | float, variance: Floats) -> Floats:
        """What is left unexplained of every pair's agreement, over its standard deviation, [P]."""
        return np.asarray((self.beyond - explained) / np.sqrt(variance))

    def products(self, table: Floats) -> Floats:
        """Scalar products of the rows that two annotators have in a table [A, ...], of every pair, [P]."""
        return _products(self.first, self.second, table, self.compiled)

    @cached_property
    def too_few(self) -> bool:
        """Whether the pairs met so rarely that none of them could stand out, even beyond label shares alone."""
        return not (self.ratio(0.0, self.unit_variance(0.0) / self.n) > EDGE).any()

    def independent(self) -> bool:
        """Whether skill explains the agreement of every pair, and nobody's skill has to be worse than never right for it."""
        if self.too_few:
            return True
        background = self.ordinary
        return not (self.ratio(background.explained, background.variance) > EDGE).any() and bool(
            background.skill.min() >= self.lowest
        )


@dataclass(frozen=True, eq=False)
class Background:
    """Skill of every annotator, [A]; the misfit's variance tau^2; per pair what skill explains, and the variance of one
    meeting and of all of them with the misfit, [P] each.
    """

    skill: Floats
    misfit: float
    explained: Floats
    unit_variance: Floats
    variance: Floats


@dataclass(frozen=True, eq=False)
class Dependence:
    """What the votes show of dependence; without readings, independent annotators explain them.

    Attributes
    ----------
    readings : tuple of Reading
        The preferred one first. More than one means that both roots stand: others explain the votes as well.
    """

    readings: tuple[Reading, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.readings)

    @property
    def groups(self) -> tuple[SharedErrors, ...]:
        """The groups of the preferred reading."""
        return self.readings[0].groups if self.readings else ()


def agreement_of(answers: SingleAnswers, most_pairs: int | None = None) -> Agreement:
    """Agreement beyond chance of all pairs that met.

    Beyond `most_pairs`, only the pairs among the annotators with most answers, as many as fit; few meetings show nothing.
    """
    count_al = answers.label_sums(answers.annotator, answers.n_annotators)
    shares_l = count_al.sum(axis=0) / max(len(answers.item), 1)
    own_al = count_al + 2 * shares_l
    own_al /= np.maximum(own_al.sum(axis=1, keepdims=True), 1e-300)
    met = agreements(answers) if most_pairs is None else _of_the_busiest(answers, most_pairs)
    first, second, n, agree = met.first, met.second, met.n_items, met.sums[:, 0]
    chance = _products(first, second, own_al, answers.compiled)
    scale = max(float(1 - (shares_l**2).sum()), 1e-12)
    return Agreement(first, second, n, agree, (agree / n - chance) / scale, chance, own_al, shares_l, answers.compiled)


def find(
    votes: Annotations,
    *,
    level: float = LEVEL,
    thorough: bool = False,
    most_meetings: int = MOST_MEETINGS,
    most_pairs: int = MOST_PAIRS,
) -> Dependence:
    """Find groups of annotators who share errors.

    Parameters
    ----------
    level : float
        The chance that any group of a size is found among independent annotators.
    thorough : bool
        Also read the votes so that those who seem most skilled are the group. A faction that agrees more than all others
        looks like the skilled part of an independent crowd, and the reverse; so these readings prove nothing by themselves.
        They come last, for known labels to choose among (`crowdwise.trust.crowd.dependence.rooted`), and where independent
        annotators explain the votes the first reading is the one without groups.
    most_meetings, most_pairs : int
        Bounds on the work: pairs of answers that are counted, and pairs of annotators that are compared.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> truth = rng.integers(3, size=300)
    >>> def judge(right, seen):
    ...     return np.where(rng.random(300) < right, seen, rng.integers(3, size=300))
    >>> shared = judge(0.6, truth)
    >>> labels = [judge(0.95, shared) for _ in range(3)] + [judge(0.8, truth) for _ in range(4)]
    >>> votes = Annotations.from_matrix(np.column_stack(labels), annotators=list("abcdefg"))
    >>> [[str(name) for name in group.names(votes)] for group in find(votes).groups]
    [['a', 'b', 'c']]
    """
    asked = (level, thorough, most_meetings, most_pairs)
    known = _FOUND.setdefault(votes, {})
    if asked not in known:
        known[asked] = _found(votes, *asked)
    return known[asked]


def _found(votes: Annotations, level: float, thorough: bool, most_meetings: int, most_pairs: int) -> Dependence:
    if votes.soft or votes.anonymous:
        # Shares of errors are counted by single labels of known annotators.
        return Dependence()
    answers = sampled(votes, min(most_meetings, enough_meetings(votes.n_annotators, level)))
    if len(np.unique(votes.label)) < 2:
        return Dependence()
    pairs = agreement_of(answers, min(most_pairs, max(_FEW_PAIRS, votes.n_votes // _VOTES_PER_PAIR)))
    if len(pairs.first) == 0 or (pairs.independent() and not thorough):
        return Dependence()
    from crowdwise.engines.readings import readings_of

    return Dependence(tuple(readings_of(votes, answers, pairs, level, thorough)))


def enough_meetings(n_annotators: int, level: float) -> int:
    """Meetings after which more of them would show nothing new, of all pairs together.

    The hardest to see is a pair alone whose excess is the least that counts, a share e of what is possible. On n meetings of
    annotators who agree with probability E it stands z = e sqrt(n (1 - E) / E) above its expectation. It is reported from z_0
    on, P(Z > z_0) <= exp(-z_0^2 / 2) = level / (A (A - 1)), and chance takes three off less than once in seven hundred times.
    With E = 0.9 that takes n = 9 (z_0 + 3)^2 / e^2 meetings of every pair.
    """
    ordered = max(n_annotators * (n_annotators - 1), 2)
    standing = math.sqrt(2 * math.log(ordered / level)) + 3
    return int(ordered / 2 * 9 * standing**2 / EXCESS**2)


def weighted_quantile(values: Floats, weight: Floats, quantile: float) -> float:
    """The value below which this share of the weight lies."""
    order = np.argsort(values)
    total = np.cumsum(weight[order])
    return float(values[order][np.searchsorted(total, quantile * total[-1])])


def _products(first: Integers, second: Integers, table: Floats, compiled: bool) -> Floats:
    """Scalar products of the rows of every pair, [P]."""
    result = np.empty(len(first))
    if compiled:
        from crowdwise.kernels.meeting_loops import products

        products(of_type(np.int64, first), of_type(np.int64, second), of_type(np.float64, table), result)
        return result
    step = max(_BLOCK // max(table.shape[1], 1), 1)
    for start in range(0, len(first), step):
        part = slice(start, start + step)
        result[part] = np.einsum("pl,pl->p", table[first[part]], table[second[part]])
    return result


def _rank_one(
    pairs: Agreement, unit_variance: Floats, kept: Flags, start: Floats, lowest: float, before: float | None
) -> tuple[Floats, float]:
    """u_a and tau^2 of the kept pairs, by damped steps: fewer of them from the misfit `before`, if there is one."""
    a, b, n, s, unit = (x[kept] for x in (pairs.first, pairs.second, pairs.n, pairs.beyond, unit_variance))
    size, sampling = pairs.n_annotators, unit / n
    u, misfit, mean_unit = start.copy(), 0.0, unit.mean()
    excess = s - u[a] * u[b]
    if pairs.compiled:
        from crowdwise.kernels.meeting_loops import rank_one

        ends = of_type(np.int64, a), of_type(np.int64, b)
        values = of_type(np.float64, s), of_type(np.float64, sampling)
        least = 10 if before is None else 2
        prior = _PSEUDO / float(mean_unit)
        return u, rank_one(*ends, *values, prior, lowest, _FAR, _ROUNDS, least, _STEP, before or 0.0, u)
    for done in range(_ROUNDS):
        variance = sampling + misfit
        z = excess / np.sqrt(variance)
        w = np.where(z > _FAR, (_FAR / np.maximum(z, _FAR)) ** 2, 1.0) / variance
        u_a, u_b, ws = u[a], u[b], w * s
        average = np.average(u, weights=segment_sum(a, w, size) + segment_sum(b, w, size) + 1e-9)
        up = segment_sum(a, ws * u_b, size) + segment_sum(b, ws * u_a, size)
        down = segment_sum(a, w * u_b**2, size) + segment_sum(b, w * u_a**2, size)
        prior = _PSEUDO * average**2 / mean_unit
        fitted = np.clip((up + prior * average) / np.maximum(down + prior, 1e-12), lowest, 1)
        step = np.abs(fitted - u).max()
        u = 0.5 * u + 0.5 * fitted
        excess = s - u[a] * u[b]
        below = excess < 0
        if below.any():
            own = sampling[below]
            weight = 1 / (own + misfit + 1e-6) ** 2
            misfit = 0.5 * misfit + 0.5 * max(float(((excess[below] ** 2 - own) * weight).sum() / weight.sum()), 0.0)
        if step < _STEP and done > 10:
            break
    return u, misfit


def _of_the_busiest(answers: SingleAnswers, most: int) -> Pairs:
    """Pairs that met of the annotators with most answers, of as many of them as `most` pairs allow."""
    count = np.bincount(answers.annotator, minlength=answers.n_annotators)
    order = np.argsort(-count, kind="stable")
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    meetings, share = np.bincount(answers.item), np.cumsum(count[order]) / max(len(answers.item), 1)
    expected = float((meetings * (meetings - 1)).sum()) / 2
    # So few annotators have no more pairs than that.
    few = int((2 * most) ** 0.5) + 2
    while True:
        # Of a share of the answers that is drawn at random its square of the meetings remains; most meetings are first ones.
        enough = int(np.searchsorted(share, min(1.5 * most / max(expected, 1.0), 1.0) ** 0.5)) + 1
        tried = len(order) if expected <= most else max(enough, few)
        met = agreements(answers) if tried >= len(order) else _among(answers, np.sort(order[:tried]))
        later = np.maximum(rank[met.first], rank[met.second])
        if tried >= len(order) or len(later) > most:
            kept = later < np.searchsorted(np.cumsum(np.bincount(later)), most, side="right")
            return met if len(later) <= most else Pairs(met.first[kept], met.second[kept], met.n_items[kept], met.sums[kept])
        expected /= 2


def _among(answers: SingleAnswers, who: Integers) -> Pairs:
    """Pairs that met of these annotators, whose codes are sorted; counted by their places, which small tables hold."""
    place = np.full(answers.n_annotators, -1)
    place[who] = np.arange(len(who))
    theirs = answers.at(place[answers.annotator] >= 0)
    met = agreements(replace(theirs, annotator=place[theirs.annotator], n_annotators=len(who)))
    return Pairs(who[met.first], who[met.second], met.n_items, met.sums)
