"""Zero-based skill: a vote whose weights follow agreement with the vote itself, step by step.

Weights start at 1 / K and move towards each annotator's share of agreement with the weighted
majority, w_a <- w_a + rate (agreement_a - w_a); the rate is halved every 20 steps.

Notes
-----
Settings as in crowd-kit: 100 steps, rate 1. Stops early once neither labels nor weights move, which
changes nothing in the result. Cost per step: O(E).

References
----------
The method and its name come from Toloka's crowd-kit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from crowdwise.engines.loop import Fit
from crowdwise.estimator.aggregator import Aggregator, Problem
from crowdwise.estimator.estimator import setting
from crowdwise.estimator.history import right_and_wrong
from crowdwise.kernels.numerics import best_class
from crowdwise.methods.labels.majority import weighted_vote
from crowdwise.parts.annotators.model import sum_by_annotator
from crowdwise.parts.annotators.weights import VoteWeights

__all__ = ["ZeroBasedSkill"]


@dataclass(eq=False, repr=False, kw_only=True)
class ZeroBasedSkill(Aggregator):
    """A weighted vote whose weights follow each annotator's agreement with it."""

    max_iter: int = setting(100, "Most steps.", low=1, whole=True)
    rate: float = setting(1.0, "First step size.", above=0)
    halve_every: int = setting(20, "Steps after which the step size is halved.", low=1, whole=True)

    name: ClassVar[str] = "zbs"

    def _fit(self, problem: Problem) -> Fit:
        votes = problem.votes
        earlier = [part.sum(axis=1) for part in right_and_wrong(problem.history, votes.n_annotators, votes.n_classes)]
        total = votes.weight_per_annotator + earlier[0] + earlier[1]
        weight = np.full(votes.n_annotators, 1 / votes.n_classes + 1e-5)
        rate, step, still = self.rate, 0, False
        while step < self.max_iter and not still:
            step += 1
            if step % self.halve_every == 0:
                rate /= 2
            vote = weighted_vote(problem, VoteWeights(weight, float(weight.mean())))
            labels = best_class(vote.posterior, vote.prior.probability)
            right = sum_by_annotator(votes, (votes.label == labels[votes.item]).astype(float)) + earlier[0]
            agreement = np.where(total > 0, right / np.where(total > 0, total, 1.0), weight)
            moved = rate * (agreement - weight)
            weight = weight + moved
            still = bool(np.abs(moved).max(initial=0.0) < 1e-12)
            if problem.progress is not None:
                problem.progress(step, 0.0, float(np.abs(moved).max(initial=0.0)))
        typical = float(weight.mean()) if len(weight) else 1.0
        return weighted_vote(problem, VoteWeights(np.maximum(weight, 0.0), typical), step, converged=True)
