"""Majority vote: the share of votes for each class.

q_nk = (votes on n for k) / (votes on n). Ties go to the class with the larger share overall, then to the
lowest index; items without votes get the class shares.

Notes
-----
The reference point of every comparison, and the start of every iterative method. `annotator_prior`
does not move labels here; it enters the reported confusion matrices.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from crowdwise.aggregate.base import Aggregator
from crowdwise.aggregate.problem import Problem
from crowdwise.annotators.weights import VoteWeights
from crowdwise.engines.alternate import Fit
from crowdwise.kernels.posterior import clamp

__all__ = ["MajorityVote", "weighted_vote"]


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

    def _fit(self, problem: Problem) -> Fit:
        return weighted_vote(problem, VoteWeights(np.ones(problem.votes.n_annotators)))


def weighted_vote(problem: Problem, weights: VoteWeights, n_iter: int = 1, converged: bool = True) -> Fit:
    """The fit of a weighted vote: shares, with gold items fixed and class shares learned from the rest."""
    prior = problem.marginals()
    shares = weights.shares(problem.votes, prior.probability)
    clamp(shares, problem.known)
    prior = prior.update(shares[weights.per_item(problem.votes) > 0])
    shares = weights.shares(problem.votes, prior.probability)
    clamp(shares, problem.known)
    return Fit(shares, prior, weights, trace={}, n_iter=n_iter, converged=converged)
