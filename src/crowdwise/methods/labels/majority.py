"""Majority vote: the share of votes for each class.

q_nk = (votes on n for k) / (votes on n). Ties go to the class with the larger share overall, then to the
lowest index; items without votes get the class shares.

Notes
-----
The reference point of every comparison, and the start of every iterative method. `history`
does not move labels here; it enters the reported confusion matrices.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from crowdwise.engines.loop import Fit
from crowdwise.engines.shards import Shard, Tally
from crowdwise.estimator.aggregator import Aggregator, Problem
from crowdwise.kernels.numerics import clamp
from crowdwise.kernels.types import Floats
from crowdwise.parts.annotators.weights import VoteWeights

__all__ = ["MajorityVote", "vote", "weighted_vote"]


@dataclass(eq=False, repr=False, kw_only=True)
class MajorityVote(Aggregator):
    """Majority vote: the share of votes for each class.

    Examples
    --------
    >>> model = MajorityVote().fit({"item": [1, 1, 1], "annotator": ["x", "y", "z"], "label": ["cat", "dog", "cat"]})
    >>> model.labels_.tolist(), model.posterior_.round(2).tolist()
    (['cat'], [[0.67, 0.33]])
    """

    name: ClassVar[str] = "majority"
    needs_annotators: ClassVar[bool] = False

    def _fit(self, problem: Problem) -> Fit:
        return weighted_vote(problem, VoteWeights(np.ones(problem.crowd.n_annotators)))


def weighted_vote(problem: Problem, weights: VoteWeights, n_iter: int = 1, converged: bool = True) -> Fit:
    """The fit of a weighted vote: shares, with gold items fixed and class shares learned from the rest."""
    prior = problem.marginals()
    prior = prior.conditioned(problem.shards.renew(vote, weights, prior.probability).sums[0])
    problem.shards.renew(vote, weights, prior.probability)
    return Fit(problem.shards.posterior, prior, weights, trace={}, n_iter=n_iter, converged=converged)


def vote(shard: Shard, weights: VoteWeights, class_shares: Floats) -> Tally:
    """Shares of the votes as posteriors; return their sum over items that have votes, [K]."""
    shard.posterior[:] = weights.shares(shard.votes, class_shares)
    clamp(shard.posterior, shard.known)
    return Tally((shard.posterior[weights.per_item(shard.votes) > 0].sum(axis=0),))
