"""Annotators who share errors: what the votes show (`crowdwise.engines.readings`), and which reading of them is right.

Votes give a tree without a root: which faction is the crowd cannot be seen in them. Two things from outside can choose:
labels that are known, and an annotator who is known to share no errors. `settled` chooses among the readings that stand;
`rooted` looks for more of them, so that a faction with half of the votes is found too. `disputed` says which labels to check:
two labelings differ in accuracy only by the items in which they differ, so that labels elsewhere choose nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.data.crowd import Vocabularies
from crowdwise.engines.independence import Dependence, find
from crowdwise.engines.readings import Reading, SharedErrors
from crowdwise.errors import SettingError
from crowdwise.estimator.outcome import Result
from crowdwise.kernels.types import Flags, Integers
from crowdwise.trust.crowd.cautious import refitted

__all__ = [
    "Dependence",
    "Reading",
    "SharedErrors",
    "colluding",
    "disputed",
    "find",
    "is_majority",
    "quarrels",
    "rooted",
    "settled",
    "trusted_codes",
]


# Of the tests by which known labels choose between readings.
_LEVEL = 0.05


def is_majority(votes: Annotations, annotators: Iterable[Any]) -> bool:
    """Whether these have more than half of the votes, or are more than half of the annotators who voted."""
    gone = np.zeros(votes.n_annotators, bool)
    gone[votes.positions(list(annotators), "annotator")] = True
    n_votes = votes.votes_per_annotator
    return bool(2 * n_votes[gone].sum() > n_votes.sum() or 2 * (n_votes[gone] > 0).sum() > (n_votes > 0).sum())


def settled(result: Result, found: Dependence, trusted: Collection[Any] = ()) -> Dependence:
    """Leave out readings of the votes that known labels or `trusted` annotators speak against; the best of the others is first.

    One goes if a trusted annotator shares errors in it; where that is so in all, the trusted choose nothing, and only known
    labels do. Then every reading is fitted without the known labels and without the votes of the trusted; one goes if it is
    wrong on so many more of these than the best that chance is no excuse (a sign test at 5 % over those in which the two
    differ). Nothing is found where the reading that is left has no groups.
    """
    votes = result.votes
    readings, who = _possible(found.readings, trusted_codes(votes, trusted))
    item, label = _known(votes, who)
    if len(readings) < 2 or len(item) == 0:
        return _dependence(readings)
    right = [fit.codes[item] == label for fit in _blind(result, readings, who)]
    order = sorted(range(len(right)), key=lambda i: -int(right[i].sum()))
    return _dependence(tuple(readings[i] for i in order if not _worse(right[order[0]], right[i])))


def rooted(result: Result, trusted: Collection[Any] = ()) -> Dependence:
    """The groups that known labels and `trusted` annotators choose, among more readings than the votes alone would leave.

    As `settled`, but a faction with half of the votes is found too (`find` with `thorough`). Readings that stand by the votes
    go first, so that they are kept unless another is right more often. Where independent annotators explain the votes, groups
    are chosen only if chance is no excuse: the known labels are twenty times as probable with them (which labels that are as
    sure as they should be reach in 5 % of the cases, by Markov's inequality; a probability counts as 1 / 20 at least, so that
    no label decides alone), or the trusted agree with more labels by a sign test at 5 %. Without anything known, it is what
    the votes alone show.
    """
    votes = result.votes
    who = trusted_codes(votes, trusted)
    if len(who) == 0 and votes.n_gold == 0:
        return find(votes)
    readings, who = _possible(find(votes, thorough=True).readings, who)
    item, label = _known(votes, who)
    if len(item) == 0:
        return find(votes)
    fits = _blind(result, readings, who) if len(readings) > 1 else []
    right = [fit.codes[item] == label for fit in fits]
    best = max(range(len(fits)), key=lambda i: (int(right[i].sum()), -i), default=0)
    if not readings:
        return Dependence()
    doubtful = bool(readings[best].groups) and not readings[0].groups
    if doubtful and not (_likelier(fits[best], fits[0], votes) or _worse(right[best], right[0])):
        return Dependence()
    # By who is together: the thorough search has readings of its own that say the same.
    standing = {reading.members for reading in find(votes).readings}
    others = [
        i for i, hits in enumerate(right) if i != best and readings[i].members in standing and not _worse(right[best], hits)
    ]
    return _dependence((readings[best], *(readings[i] for i in others)))


def disputed(result: Result, trusted: Collection[Any] = (), *, seed: int = 0) -> Integers:
    """Items whose true labels choose between readings of the votes, as codes in random order, [M]: check the first so many.

    They are those to which the readings of `rooted` give different labels, all alike, so that the right labels among the
    checked are an even sample of where the readings differ, and the tests of `rooted` hold for them: these ask only that items
    are drawn by votes and chance. Readings that known labels or `trusted` annotators speak against have no part in it, and
    items of known label are left out; the others keep their order, so that with more labels known the next ones come first.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> truth, seen = rng.integers(2, size=(2, 400))
    >>> labels = [np.where(rng.random(400) < 0.95, seen, 1 - seen) for _ in range(6)]
    >>> labels += [np.where(rng.random(400) < 0.7, truth, 1 - truth) for _ in range(5)]
    >>> votes = Annotations.from_matrix(np.column_stack(labels))
    >>> from crowdwise.estimator.registry import make
    >>> items = disputed(make("dawid-skene").fit(votes).result_)[:20]
    >>> known = dict(zip(votes.items[items].tolist(), truth[items].tolist()))
    >>> found = rooted(make("dawid-skene").fit(votes, gold=known).result_)
    >>> found.groups[0].members.tolist()
    [0, 1, 2, 3, 4, 5]
    """
    votes = result.votes
    readings, who = _possible(find(votes, thorough=True).readings, trusted_codes(votes, trusted))
    if len(readings) < 2:
        return np.zeros(0, np.int64)
    item, label = _known(votes, who)
    fits = _blind(result, readings, who)
    right = [fit.codes[item] == label for fit in fits]
    best = max(right, key=np.count_nonzero)
    labels = np.column_stack([fit.codes for fit, hits in zip(fits, right, strict=True) if not _worse(best, hits)])
    differ = (labels != labels[:, :1]).any(axis=1) & (votes.votes_per_item > 0) & ~votes.is_known
    order = np.random.default_rng(seed).permutation(votes.n_items)
    return np.asarray(order[differ[order]])


def colluding(votes: Annotations, found: Dependence) -> list[Any]:
    """Annotators of groups that agree with those outside no more than chance lets them, by name.

    Nobody where several readings stand, for either faction may then be the colluders; and nobody where they have more than
    half of the votes or are more than half of the annotators: whoever is to be left out must not be the crowd.
    """
    if len(found.readings) != 1:
        return []
    names = [name for group in found.groups if group.against for name in group.names(votes)]
    return [] if is_majority(votes, names) else names


def _dependence(readings: tuple[Reading, ...]) -> Dependence:
    """What these readings show: nothing, where the only one is that nobody shares errors."""
    return Dependence(readings if any(reading.groups for reading in readings) else ())


def _possible(readings: tuple[Reading, ...], trusted: Integers) -> tuple[tuple[Reading, ...], Integers]:
    """Readings in which the trusted share no errors, and the trusted; all readings and nobody where there is none."""
    possible = tuple(reading for reading in readings if (reading.code[trusted] < 0).all())
    return (possible, trusted) if possible else (readings, trusted[:0])


def _known(votes: Annotations, trusted: Integers) -> tuple[Integers, Integers]:
    """Items and labels that are known: gold, and the votes of the trusted on other items."""
    gold = np.full(votes.n_items, -1) if votes.gold is None else np.asarray(votes.gold)
    theirs = np.isin(votes.annotator, trusted) & (gold[votes.item] < 0)
    known = np.flatnonzero(gold >= 0)
    return np.concatenate([known, votes.item[theirs]]), np.concatenate([gold[known], votes.label[theirs]])


def trusted_codes(votes: Vocabularies, trusted: Collection[Any]) -> Integers:
    """Codes of annotators who are to be trusted; refuses names that nobody has."""
    who = {str(name): code for code, name in enumerate(votes.annotators.tolist())}
    unknown = [name for name in trusted if str(name) not in who]
    if unknown:
        raise SettingError(f"no annotator is called {unknown[0]!r}, who is to be trusted")
    return np.array([who[str(name)] for name in trusted], np.int64)


def quarrels(votes: Annotations, trusted: Integers) -> list[tuple[Any, Any, float, int]]:
    """Pairs of these annotators who agree on their common items no more than by chance: both names, how often, of how many."""
    if len(trusted) < 2:
        return []
    from crowdwise.trust.crowd.pairs import of_pairs

    pairs = of_pairs(votes).pairs
    against = np.isin(pairs.first, trusted) & np.isin(pairs.second, trusted) & (pairs.beyond <= 0)
    names, share = votes.annotators.tolist(), pairs.agree / pairs.n
    return [(names[pairs.first[p]], names[pairs.second[p]], float(share[p]), int(pairs.n[p])) for p in np.flatnonzero(against)]


def _blind(result: Result, readings: Sequence[Reading], trusted: Integers) -> list[Result]:
    """The method fitted by every reading, without known labels and without the votes of the trusted."""
    votes = replace(result.votes.take_votes(~np.isin(result.votes.annotator, trusted)), gold=None)
    return [refitted(result, votes, reading).result_ for reading in readings]


def _likelier(fit: Result, plain: Result, votes: Annotations) -> bool:
    """Whether known labels are so much more probable by one fit than by the other that chance is no excuse."""
    if votes.gold is None:
        return False
    known = np.flatnonzero(votes.gold >= 0)
    one, other = (np.log(np.maximum(of.posterior[known, votes.gold[known]], _LEVEL)).sum() for of in (fit, plain))
    return bool(one - other >= -np.log(_LEVEL))


def _worse(best: Flags, other: Flags) -> bool:
    """Whether one labelling is right so much more often than the other that chance is no excuse: a sign test."""
    from scipy.stats import binomtest

    only_best = int((best & ~other).sum())
    differ = only_best + int((~best & other).sum())
    return differ > 0 and binomtest(only_best, differ, alternative="greater").pvalue <= _LEVEL
