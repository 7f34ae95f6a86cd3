"""M3V: max-margin majority voting. Weights of annotators that separate the best class from every other.

Program    min over eta, z of 1/2 |eta|^2 + c sum_n xi_n,   score_n(z_n) - score_n(k) >= 1 - xi_n for all k != z_n,
           score_n(k) = sum of eta_a over the votes k on n
Alternate  z_n = argmax_k score_n(k);  eta = a multiclass linear SVM on the labels z
Posterior  q_n = softmax(log d + score_n / temperature)

Symbols
-------
eta : [A]   weights of annotators, of any sign;  s_nk : [N, K] scores;  c : `cost`

Notes
-----
The hinge of an item, max(0, 1 - margin), is max_k(1[k != z] + s_k - s_z). Its smooth form with
temperature T, T log sum_k exp((1[k != z] + s_k - s_z) / T) (at most T log K above it), makes the
problem in eta strongly convex and differentiable, so L-BFGS finds its one solution and a fit is
repeatable. Both steps lower the objective; it stops when no label changes. The first labels are
the majority's. Margin 1 loses nothing: a margin l only scales eta, with cost / l.

Votes need not be likelihoods for this method, so it has no bound, and no class prior enters the
weights; a `class_prior` (uniform as published, given, or learned from the scores) only shifts the
posterior. Earlier answers of an annotator (`history`) count as items with one vote of known
class. Confidences are those of the softmax, not calibrated ones. Cost per step: O(E) + O(N K).

References
----------
Tian and Zhu (2015), Max-margin majority voting for learning from crowds, NeurIPS.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.engines.loop import Fit
from crowdwise.errors import ConvergenceWarning
from crowdwise.estimator.aggregator import Aggregator, Problem
from crowdwise.estimator.estimator import setting
from crowdwise.estimator.history import right_and_wrong
from crowdwise.kernels.numerics import best_class, clamp, segment_sum
from crowdwise.kernels.types import Floats, Integers
from crowdwise.parts.annotators.margin import MarginWeights

__all__ = ["MaxMarginVote"]


@dataclass(eq=False, repr=False, kw_only=True)
class MaxMarginVote(Aggregator):
    """A weighted vote whose weights separate the best class of every item from the others."""

    class_prior: Any = setting("uniform", 'Class shares: "uniform" (the paper\'s), "learn", or K probabilities.', free=True)
    cost: float = setting(0.1, "Cost of a margin of 0 instead of 1, against the size of the weights.", above=0)
    temperature: float = setting(0.2, "Smoothing of the hinge, and scale of the confidences, in margins.", above=0)
    max_iter: int = setting(50, "Most rounds of labels and weights.", low=1, whole=True)

    name: ClassVar[str] = "m3v"

    def _fit(self, problem: Problem) -> Fit:
        votes = problem.votes
        earlier = [part.sum(axis=1) for part in right_and_wrong(problem.history, votes.n_annotators, votes.n_classes)]
        eta, codes, converged = np.zeros(votes.n_annotators), np.empty(0, np.int64), False
        # Also in an update: labels have several fixed points, and the majority always leads to the same one.
        scores = problem.shares
        flat = np.full(votes.n_classes, 1 / votes.n_classes)
        rounds = 0
        while rounds < self.max_iter and not converged:
            rounds += 1
            before, codes = codes, _labels(scores, flat, problem)
            converged = len(before) > 0 and bool((codes == before).all())
            if not converged:
                eta = self._weights(votes, codes, earlier, eta)
                scores = _scores(votes, eta)
            if problem.progress is not None:
                problem.progress(rounds, 0.0, float((codes != before).mean()) if len(before) else 1.0)
        if not converged:
            warnings.warn(f"labels still changed after {rounds} rounds; raise max_iter", ConvergenceWarning, stacklevel=4)
        return self._read_out(problem, eta, rounds, converged)

    def _weights(self, votes: Annotations, codes: Integers, earlier: list[Floats], start: Floats) -> Floats:
        """The smoothed multiclass SVM on the labels `codes`: its one solution, [A]."""
        from scipy.optimize import minimize

        n_classes, temperature = votes.n_classes, self.temperature
        own = np.arange(votes.n_items)
        margin = np.ones((votes.n_items, n_classes))
        margin[own, codes] = 0.0
        weight = votes.weights
        right, wrong = earlier

        def objective(eta: Floats) -> tuple[float, Floats]:
            scores = margin + _scores(votes, eta)
            scores -= scores[own, codes][:, None].copy()
            loss, p_nk = _log_sum(scores / temperature)
            p_nk[own, codes] -= 1.0
            slope = segment_sum(votes.annotator, weight * p_nk[votes.item, votes.label], votes.n_annotators)
            value = temperature * loss.sum()
            # An earlier answer is an item with one vote: right (score eta for the label) or wrong (eta for another class).
            if n_classes > 1:
                ones = np.ones(len(eta))
                gain, p = _log_sum(np.column_stack([0 * eta, (1 - eta) / temperature + np.log(n_classes - 1)]))
                value += temperature * (right * gain).sum()
                slope = slope - right * p[:, 1]
                others = np.log(n_classes - 2) if n_classes > 2 else -np.inf
                gain, p = _log_sum(np.column_stack([0 * eta, (1 + eta) / temperature, ones / temperature + others]))
                value += temperature * (wrong * gain).sum()
                slope = slope + wrong * p[:, 1]
            return float(0.5 * eta @ eta + self.cost * value), np.asarray(eta + self.cost * slope)

        options = {"maxiter": 2000, "ftol": 1e-15, "gtol": 1e-10, "maxcor": 20}
        return np.asarray(minimize(objective, start, jac=True, method="L-BFGS-B", options=options).x)

    def _read_out(self, problem: Problem, eta: Floats, rounds: int, converged: bool) -> Fit:
        votes = problem.votes
        prior = problem.marginals()
        weights = MarginWeights(eta, float(eta.mean()) if len(eta) else 0.0, self.temperature)
        posterior = np.zeros((votes.n_items, votes.n_classes))
        weights.infer(votes, prior.log_prob(), problem.known, posterior)
        spoken = votes.weight_per_item > 0
        if len(problem.known):
            spoken |= problem.known >= 0
        prior = prior.update(posterior[spoken])
        weights.infer(votes, prior.log_prob(), problem.known, posterior)
        clamp(posterior, problem.known)
        return Fit(posterior, prior, weights, trace={}, n_iter=rounds, converged=converged)


def _labels(scores: Floats, flat: Floats, problem: Problem) -> Integers:
    codes = best_class(scores - scores.min(axis=1, keepdims=True, initial=0.0), flat)
    if len(problem.known):
        codes = np.where(problem.known >= 0, problem.known, codes)
    return np.asarray(codes, np.int64)


def _scores(votes: Annotations, eta: Floats) -> Floats:
    """Sum of the weights of the votes for each class, [N, K]."""
    weight = eta[votes.annotator] if votes.weight is None else eta[votes.annotator] * votes.weight
    return votes.by_class(weight)


def _log_sum(scores: Floats) -> tuple[Floats, Floats]:
    """Log-sum-exp and softmax of every row."""
    top = scores.max(axis=1, keepdims=True)
    p = np.exp(scores - top)
    total = p.sum(axis=1, keepdims=True)
    return (top + np.log(total))[:, 0], p / total
