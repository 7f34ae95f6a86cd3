"""How sure labels may be where annotators seem to share errors: the labels stay, their confidence is lowered.

For every reading of the votes (`crowdwise.trust.crowd.dependence`), the same method is fitted again with votes of a group
counting 1 / (1 + (m - 1) rho) where m members voted on the item; rho is the group's excess agreement. Every row of the
posterior then moves towards that of the reading which believes least in its label, as far as the label stays the label:
where a reading prefers another class, both come out even. Nothing becomes more certain.

Notes
-----
Fitted again, not inferred again: a fit that followed a faction has learned to trust it, and discounted votes of annotators
with nearly perfect matrices still decide everything. Fused votes (`crowdwise.trust.crowd.fusion`) give nearly the same
confidence, but lose the annotators; the page on benchmarks has the comparison. Cost: one fit per reading, where groups are
found.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.errors import CrowdwiseWarning, SettingError
from crowdwise.estimator.aggregator import Aggregator
from crowdwise.estimator.outcome import Result
from crowdwise.estimator.registry import make_aggregator
from crowdwise.kernels.types import Floats, Integers
from crowdwise.trust.calibration.base import with_posterior
from crowdwise.trust.calibration.effective_votes import EffectiveVotes
from crowdwise.trust.crowd.dependence import Dependence, Reading
from crowdwise.trust.fitted_method import method_of, settings_of

__all__ = ["believed", "cautious", "lowered", "lowest", "refitted", "settled_by_gold", "settled_by_trust"]


# A label stays ahead by this much; differences below 1e-9 count as ties.
_AHEAD = 1e-6
# Of the test by which known labels choose between readings.
_LEVEL = 0.05


def believed(result: Result, found: Dependence) -> Result:
    """The result with the confidence that is left if the groups found share errors."""
    return with_posterior(result, cautious(result, found), result.confidence_source)


def settled_by_gold(result: Result, found: Dependence) -> Dependence:
    """Leave out readings of the votes that known labels speak against; the best of the others comes first.

    Every reading is fitted without the known labels; one goes if it is wrong on so many more of them than the best that
    chance is no excuse (a sign test at 5 % over the known items in which the two differ).
    """
    gold = result.votes.gold
    if gold is None or len(found.readings) < 2 or not (gold >= 0).any():
        return found
    known = np.flatnonzero(gold >= 0)
    votes = replace(result.votes, gold=None)
    right = [refitted(result, votes, reading).result_.codes[known] == gold[known] for reading in found.readings]
    order = sorted(range(len(right)), key=lambda i: -int(right[i].sum()))
    best = right[order[0]]
    kept = [i for i in order if not _worse(int((best & ~right[i]).sum()), int((~best & right[i]).sum()))]
    return replace(found, readings=tuple(found.readings[i] for i in kept))


def settled_by_trust(votes: Annotations, found: Dependence, trusted: Collection[Any]) -> Dependence:
    """Leave out readings in which one of the `trusted` annotators shares errors, as long as another reading is left."""
    who = {str(name): code for code, name in enumerate(votes.annotators.tolist())}
    unknown = [name for name in trusted if str(name) not in who]
    if unknown:
        raise SettingError(f"no annotator is called {unknown[0]!r}, who is to be trusted")
    code = np.array([who[str(name)] for name in trusted], np.int64)
    kept = tuple(reading for reading in found.readings if (reading.code[code] < 0).all())
    return replace(found, readings=kept or found.readings)


def _worse(only_best: int, only_other: int) -> bool:
    from scipy.stats import binomtest

    differ = only_best + only_other
    return differ > 0 and binomtest(only_best, differ, alternative="greater").pvalue <= _LEVEL


def refitted(result: Result, votes: Annotations, reading: Reading) -> Aggregator:
    """The same method fitted to votes of which those of groups count for less."""
    weight = EffectiveVotes(reading.code, reading.correlation).weight(votes)
    discounted = replace(votes, weight=weight if votes.weight is None else weight * votes.weight)
    history = None
    if result.history is not None:
        history = {name: counts.T for name, counts in zip(votes.annotators.tolist(), result.history, strict=True)}
    with warnings.catch_warnings():
        # What there is to say of the fit was said by the first.
        warnings.simplefilter("ignore", CrowdwiseWarning)
        return make_aggregator(method_of(result), **settings_of(result)).fit(discounted, history=history)


def cautious(result: Result, found: Dependence) -> Floats:
    """The posterior of `result` with the confidence that is left if the groups found share errors, [N, K].

    Labels are those of `result`, and none is more certain. Without groups it is the posterior as it is.
    """
    return lowest(result, (refitted(result, result.votes, reading).posterior_ for reading in found.readings))


def lowest(result: Result, others: Iterable[Floats]) -> Floats:
    """The posterior of `result`, every row moved towards the one of `others` that believes least in its label, [N, K]."""
    rows, label, posterior = np.arange(result.votes.n_items), result.codes, result.posterior
    for other in others:
        moved = lowered(result.posterior, other, label)
        posterior = np.where((moved[rows, label] < posterior[rows, label])[:, None], moved, posterior)
    return posterior


def lowered(posterior: Floats, other: Floats, label: Integers) -> Floats:
    """Rows of `posterior` moved towards `other` as far as the label stays ahead, [N, K]; never to more confidence.

    Parameters
    ----------
    posterior, other : [N, K]
    label : [N]
        Class codes that lead in `posterior`.

    Examples
    --------
    >>> lowered(np.array([[1.0, 0.0], [1.0, 0.0]]), np.array([[0.8, 0.2], [0.1, 0.9]]), np.array([0, 0])).round(3).tolist()
    [[0.8, 0.2], [0.5, 0.5]]
    """
    rows = np.arange(len(label))
    lead = posterior[rows, label][:, None] - posterior
    other_lead = other[rows, label][:, None] - other
    # The share of `posterior` at which class k is _AHEAD behind the label: share * lead + (1 - share) * other_lead = _AHEAD.
    share = np.where(other_lead < _AHEAD, (_AHEAD - other_lead) / np.maximum(lead - other_lead, 1e-12), 0.0)
    share[rows, label] = 0.0
    least = np.clip(share.max(axis=1, initial=0.0), 0.0, 1.0)[:, None]
    moved = least * posterior + (1 - least) * other
    surer = moved[rows, label] >= posterior[rows, label]
    return np.where(surer[:, None], posterior, moved)
