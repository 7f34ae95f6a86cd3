"""SpEM: Dawid-Skene by EM under a prior that takes annotators for spammers unless their votes say otherwise.

Prior      p(pi_a) proportional to exp(-1/2 lambda_a (K - 1)^2 S_a),  S_a the spammer score of `raykar_yu`: 0 for equal rows
E-step     q_nk proportional to d_k prod_{votes e on n} pi[a_e, k, y_e], over annotators who are not pruned
M-step     pi_a maximises sum_kl counts_akl log pi_akl - 1/2 lambda_a (K - 1) sum_k |pi_ak - mean_a|^2
           by turns: the mean of the rows, then every row, g = lambda_a (K - 1), nu such that it sums to one:
           pi_l = (g mean_l - nu + sqrt((g mean_l - nu)^2 + 4 g counts_l)) / (2 g)
Precision  lambda_a = 1 / S_a, of type II: (K - 1)^2 degrees of freedom over (K - 1)^2 S_a
Pruning    whoever has lambda_a > 100 is a spammer; EM again without them, until nobody else is

Symbols
-------
pi_akl : [A, K, K]     P(observed l | true k)
lambda_a : [A]         precision of the prior; infinite for the pruned

Notes
-----
For two classes S = (sensitivity + specificity - 1)^2 and this is the paper's prior with its threshold of 100. For more the
paper leaves the form of the update open; equal degrees of freedom and quadratic form make it the same. Half a pseudo-vote per
cell of the matrices, shared by K, keeps logarithms finite. Cost per round: O(E K + A K^2).

References
----------
Raykar and Yu (2012), Eliminating spammers and ranking annotators for crowdsourced labeling tasks,
Journal of Machine Learning Research 13, 491-518.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.estimator.outcome import Result
from crowdwise.kernels.numerics import segment_sum, vote_shares
from crowdwise.kernels.types import Flags, Floats
from crowdwise.trust.crowd.raykar_yu import spammer_score
from crowdwise.trust.crowd.report import Report, report, votes_of

__all__ = ["Spem", "penalised_rows", "score", "spem"]


# The paper's threshold of pruning; rounds of EM between looks at who is pruned, looks, and when rows and posteriors rest.
MOST_PRECISION = 100.0
_ROUNDS, _LOOKS, _CLOSE, _TURNS = 50, 100, 1e-5, 20


@dataclass(frozen=True, eq=False)
class Spem:
    """Posterior of the items, [N, K]; confusion matrices, [A, K, K]; precisions, [A]; and who was pruned, [A]."""

    posterior: Floats
    confusion: Floats
    precision: Floats
    pruned: Flags


def score(result: Result, votes: Annotations | None = None) -> Report:
    """Flag the annotators that SpEM prunes; `score` is their spammer score, and the frame has the precision of the prior."""
    votes = votes_of(result, votes)
    fit = spem(votes)
    unknown = np.full(votes.n_annotators, np.nan)
    reason = [
        f"pruned: precision {p:.3g} of the prior of spammers" if f else ""
        for p, f in zip(fit.precision, fit.pruned, strict=True)
    ]
    more = {"precision": fit.precision}
    scores = spammer_score(fit.confusion)
    return report("spem", votes, score=scores, p_value=unknown, q_value=unknown, flag=fit.pruned, reason=reason, more=more)


def spem(votes: Annotations) -> Spem:
    """Fit labels and annotators, and prune spammers on the way."""
    n_annotators, n_classes = votes.n_annotators, votes.n_classes
    weight = votes.weights
    precision, pruned = np.ones(n_annotators), np.zeros(n_annotators, bool)
    confusion = np.full((n_annotators, n_classes, n_classes), 1 / max(n_classes, 1))
    even = np.full(n_classes, 1 / max(n_classes, 1))
    posterior = vote_shares(votes.item_ptr, votes.label, weight, n_classes, even)
    # With one class nobody can be told from a spammer.
    for _ in range(_LOOKS if n_classes > 1 else 0):
        for _ in range(_ROUNDS):
            before = posterior
            confusion = penalised_rows(_counts(votes, weight, posterior), precision * (n_classes - 1), confusion)
            posterior = _infer(votes, weight * ~pruned[votes.annotator], confusion, posterior.mean(axis=0))
            if np.abs(posterior - before).mean() < _CLOSE:
                break
        # Type II; a precision below that of a perfect annotator's score would say nothing.
        renewed = 1 / np.maximum(spammer_score(confusion), 1e-9)
        settled = bool((np.abs(np.log(renewed / precision)) < 0.01).all())
        precision = renewed
        gone = ~pruned & (precision > MOST_PRECISION)
        # Whoever is left must be able to say something.
        if settled or (pruned | gone).all():
            break
        pruned = pruned | gone
    return Spem(posterior, confusion, precision, pruned)


def penalised_rows(counts_akl: Floats, pull_a: Floats, start_akl: Floats) -> Floats:
    """Rows that raise sum counts log pi - pull / 2 sum_k |pi_k - mean|^2 of every annotator, [A, K, L], by turns from a start.

    Turns are few where the pull is strong; rounds of EM continue where the last one ended.

    Examples
    --------
    >>> counts = np.array([[[9.0, 1.0], [1.0, 9.0]]])
    >>> penalised_rows(counts, np.array([1e-9]), np.full((1, 2, 2), 0.5)).round(3).tolist()
    [[[0.9, 0.1], [0.1, 0.9]]]
    >>> penalised_rows(counts, np.array([1e6]), np.full((1, 2, 2), 0.5)).round(3).tolist()
    [[[0.5, 0.5], [0.5, 0.5]]]
    """
    pi_akl, g = start_akl, pull_a[:, None, None]
    for _ in range(_TURNS):
        before, mean = pi_akl, pi_akl.mean(axis=1, keepdims=True)
        # The sum over l falls with nu, and is one between these: at nu = -g - 1 every pi_l is above mean_l, at total + g the
        # equation counts_l / pi_l = nu + g (pi_l - mean_l) leaves less than counts_l / total.
        total = counts_akl.sum(axis=2, keepdims=True)
        low, high = -g - 1.0, total + g
        for _ in range(60):
            nu = (low + high) / 2
            shifted = g * mean - nu
            pi_akl = (shifted + np.sqrt(shifted**2 + 4 * g * counts_akl)) / (2 * g)
            above = pi_akl.sum(axis=2, keepdims=True) > 1
            low, high = np.where(above, nu, low), np.where(above, high, nu)
        pi_akl = pi_akl / pi_akl.sum(axis=2, keepdims=True)
        if np.abs(pi_akl - before).max(initial=0.0) < _CLOSE:
            break
    return pi_akl


def _counts(votes: Annotations, weight: Floats, posterior: Floats) -> Floats:
    """Expected votes of every annotator by true class and label, with half a pseudo-vote per row, [A, K, L]."""
    shape, cell = (votes.n_annotators, votes.n_classes), votes.annotator.astype(np.int64) * votes.n_classes + votes.label
    columns = [
        segment_sum(cell, weight * posterior[votes.item, k], shape[0] * shape[1]).reshape(shape) for k in range(shape[1])
    ]
    return np.stack(columns, axis=1) + 0.5 / max(shape[1], 1)


def _infer(votes: Annotations, weight: Floats, confusion_akl: Floats, shares_k: Floats) -> Floats:
    log_pi = np.log(np.maximum(confusion_akl, 1e-300))
    evidence = [
        segment_sum(votes.item, weight * log_pi[votes.annotator, k, votes.label], votes.n_items) for k in range(votes.n_classes)
    ]
    joint = np.column_stack(evidence) + np.log(np.maximum(shares_k, 1e-300))
    joint = np.exp(joint - joint.max(axis=1, keepdims=True))
    return np.asarray(joint / joint.sum(axis=1, keepdims=True))
