"""Eigen: the spectral meta-learner for two classes.

Model      votes y = -1, +1; t_a = sensitivity + specificity - 1; b = P(+1) - P(-1). For a != b
           Cov(y_a, y_b) = v_a v_b,  v_a = sqrt(1 - b^2) t_a       (rank one off the diagonal)
           third central moment of a, b, c = alpha v_a v_b v_c,  alpha = -2 b / sqrt(1 - b^2)
Solver     v by weighted least squares on the covariances (`crowdwise.engines.rank_one`), alpha by one
           regression over all triples, then E[y_a | +1] = mu_a + (1 - b) t_a and E[y_a | -1] = mu_a - (1 + b) t_a

Notes
-----
Two classes only. The weighted fit off the diagonal equals "fill the diagonal with v_a^2, take the top
eigenvector, repeat" where every pair met equally often, and allows for pairs that did not. All triples
of an item enter alpha in O(votes) through power sums. The sign of v makes annotators right more often
than not, per connected component.

References
----------
Parisi, Strino, Nadler and Kluger (2014), Ranking and combining multiple predictors without labeled
data, PNAS. Jaffe, Nadler and Kluger (2015), Estimating the accuracies of multiple classifiers without
labeled data, AISTATS.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.engines.loop import Fit
from crowdwise.engines.moments import Cooccurrence, Estimate
from crowdwise.engines.rank_one import least_squares, orient
from crowdwise.errors import InputError
from crowdwise.estimator.aggregator import Problem
from crowdwise.kernels.cooccurrence import distributions
from crowdwise.kernels.numerics import segment_sum
from crowdwise.kernels.types import Floats
from crowdwise.methods.labels.moment import ConfusionMoments

__all__ = ["Eigen"]


@dataclass(eq=False, repr=False, kw_only=True)
class Eigen(ConfusionMoments):
    """Sensitivity and specificity of annotators from covariances of their votes; two classes."""

    name: ClassVar[str] = "eigen"

    def _fit(self, problem: Problem) -> Fit:
        if problem.votes.n_classes > 2:
            raise InputError(f"eigen needs two classes, these votes have {problem.votes.n_classes}; use cnmf or spectral-ds")
        return super()._fit(problem)

    def _estimate(self, problem: Problem, moments: Cooccurrence) -> Estimate:
        block = moments.blocks(np.arange(len(moments.met_p))) / moments.met_p[:, None, None]
        left, right = block.sum(axis=2), block.sum(axis=1)
        # Cov of signs, each pair around its own means.
        covariance = 4 * (block[:, 1, 1] - left[:, 1] * right[:, 1])
        v, rounds, settled = least_squares(
            moments.first, moments.second, covariance, moments.met_p, moments.n_annotators, -1.0, 1.0
        )
        v = orient(v, moments.component, moments.count_al.sum(axis=1))
        total = moments.count_al.sum(axis=1)
        mu = np.where(total > 0, (moments.count_al[:, 1] - moments.count_al[:, 0]) / np.maximum(total, 1e-300), 0.0)
        alpha = _skewness(problem.votes, mu, v)
        b = -alpha / np.sqrt(4 + alpha**2)
        t = v / np.sqrt(1 - b**2)
        plus = (1 + np.column_stack([mu - (1 + b) * t, mu + (1 - b) * t])) / 2
        # [A, L, K]: the share of label +1 under each true class, and its complement.
        table = np.stack([1 - plus, plus], axis=1).clip(0.0, 1.0)
        return Estimate(distributions(table, 1), np.array([(1 - b) / 2, (1 + b) / 2]), moments.met_a > 0, rounds, settled)

    def _rounds(self) -> int:
        return 5


def _skewness(votes: Annotations, mu: Floats, v: Floats) -> float:
    """alpha: regression of the products of three centred votes on v_a v_b v_c, over all triples of all items.

    With p1, p2, p3 the sums of first to third powers over an item, the sum over its triples is
    (p1^3 - 3 p1 p2 + 2 p3) / 6.
    """
    weight = votes.weights
    use = np.flatnonzero(weight > 0)
    # An annotator's repeated votes on an item count as one mean vote: a triple needs three people.
    key = votes.item[use].astype(np.int64) * votes.n_annotators + votes.annotator[use]
    code, place = np.unique(key, return_inverse=True)
    total = segment_sum(place.reshape(-1), weight[use], len(code))
    vote = segment_sum(place.reshape(-1), weight[use] * (2.0 * votes.label[use] - 1), len(code)) / total
    item, who = code // votes.n_annotators, code % votes.n_annotators

    def triples(x: Floats) -> float:
        first, second, third = (segment_sum(item, x**power, votes.n_items) for power in (1, 2, 3))
        return float((first**3 - 3 * first * second + 2 * third).sum())

    bottom = triples(v[who] ** 2)
    # Beyond 40 the rarer class would have less than one item in two thousand.
    return float(np.clip(triples(v[who] * (vote - mu[who])) / bottom, -40, 40)) if bottom > 1e-12 else 0.0
