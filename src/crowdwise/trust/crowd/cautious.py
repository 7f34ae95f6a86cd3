"""How sure labels may be where annotators seem to share errors: the labels stay, their confidence is lowered.

For every reading of the votes (`crowdwise.engines.readings`), the same method is fitted again with votes of a group
counting 1 / (1 + (m - 1) rho) where m members voted on the item; rho is the group's excess agreement. Every row of the
posterior then moves towards that of the reading which believes least in its label, as far as the label stays the label:
where a reading prefers another class, both come out even. Nothing becomes more certain.

Notes
-----
Fitted again, not inferred again: a fit that followed a faction has learned to trust it, and discounted votes of annotators
with nearly perfect matrices still decide everything. Fused votes (`crowdwise.trust.crowd.fusion`) give nearly the same
confidence, but lose the annotators; the evidence on crowds has the comparison. Cost: one fit per reading, where groups are
found.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.engines.independence import Dependence
from crowdwise.engines.readings import Reading
from crowdwise.errors import CrowdwiseWarning
from crowdwise.estimator.aggregator import Aggregator
from crowdwise.estimator.outcome import Result
from crowdwise.estimator.registry import make_aggregator
from crowdwise.kernels.types import Floats, Integers
from crowdwise.trust.calibration.base import with_posterior
from crowdwise.trust.calibration.effective_votes import EffectiveVotes
from crowdwise.trust.fitted_method import method_of, settings_of

__all__ = ["believed", "cautious", "lowered", "lowest", "refitted"]


# A label stays ahead by this much; differences below 1e-9 count as ties.
_AHEAD = 1e-6


def believed(result: Result, others: Iterable[Floats]) -> Result:
    """The result with the confidence that the posteriors of other readings leave, [N, K] each."""
    return with_posterior(result, lowest(result, others), result.confidence_source)


def refitted(result: Result, votes: Annotations, reading: Reading) -> Aggregator:
    """The same method fitted to votes of which those of groups count for less."""
    discounted = EffectiveVotes(reading.code, reading.correlation).discounted(votes)
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
