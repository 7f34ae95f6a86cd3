"""Wawa (worker agreement with aggregate): a vote weighted by agreement with the majority.

1. majority vote;  2. w_a = share of a's votes that equal it;  3. vote again with these weights.

Notes
-----
Annotators with earlier answers (`history`) or gold items start from those: the agreement of
a gold item is with its known label. Cost: O(E), two passes.

References
----------
Appen's "agreement with aggregate"; the definition is that of crowd-kit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from crowdwise.engines.loop import Fit
from crowdwise.engines.shards import Shard, Tally
from crowdwise.estimator.aggregator import Aggregator, Problem
from crowdwise.estimator.history import right_and_wrong_in_all
from crowdwise.kernels.numerics import best_class, ratio
from crowdwise.kernels.types import Floats
from crowdwise.methods.labels.majority import weighted_vote
from crowdwise.parts.annotators.model import sum_by_annotator
from crowdwise.parts.annotators.weights import VoteWeights

__all__ = ["Wawa", "agreements"]


@dataclass(eq=False, repr=False, kw_only=True)
class Wawa(Aggregator):
    """A vote in which every annotator weighs as much as it agrees with the majority."""

    name: ClassVar[str] = "wawa"

    def _fit(self, problem: Problem) -> Fit:
        crowd = problem.crowd
        first = weighted_vote(problem, VoteWeights(np.ones(crowd.n_annotators)))
        earlier = right_and_wrong_in_all(problem.history, crowd.n_annotators, crowd.n_classes)
        right = problem.shards.total(agreements, first.prior.probability).sums[0] + earlier[0]
        total = crowd.answers.sum(axis=1) + earlier[0] + earlier[1]
        typical = float(right.sum() / total.sum()) if total.sum() > 0 else 1.0
        weight = ratio(right, total, typical)
        return weighted_vote(problem, VoteWeights(weight, typical), n_iter=2)


def agreements(shard: Shard, class_shares: Floats) -> Tally:
    """Weight of every annotator's votes that equal the present label, [A]."""
    votes = shard.votes
    labels = best_class(shard.posterior, class_shares)
    return Tally((sum_by_annotator(votes, (votes.label == labels[votes.item]).astype(float)),))
