"""Whom to ask about which group, so that wrong positives are as frequent in all groups (Goel and Faltings 2019).

    maximise   sum_s w_s sum_a x[a, s] acc[a, s]
    subject to sum_a x[a, s] = 1,  x >= 0,  L <= sum_a x[a, s] fpr[a, s] <= L + within for every group s,
               sum_s w_s x[a, s] <= most for every annotator a

A linear program in the shares x of a group's questions that each annotator gets; w_s is the share of questions on group s.
Rates come from votes on items of known class, shrunk as in `matrices_given`. Estimates that look best are partly lucky, so
the accuracy that is maximised is a lower end of its posterior.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from crowdwise.data.annotations import Annotations
from crowdwise.data.encode import series_of
from crowdwise.data.gold import encode_gold
from crowdwise.data.groups import Groups, groups_of
from crowdwise.errors import InputError, SettingError
from crowdwise.estimator.aggregator import as_annotations
from crowdwise.kernels.types import Floats
from crowdwise.trust.fairness.gaps import classes_of, one_hot
from crowdwise.trust.fairness.scores import matrices_given

__all__ = ["FairAssignment", "fair_assignment", "solve_assignment"]


@dataclass(frozen=True, eq=False)
class FairAssignment:
    """Shares of each group's questions, and what they are expected to give.

    Attributes
    ----------
    share : [A, G]
        Share of the questions on a group that an annotator gets; columns sum to one.
    rate : [G]
        Expected false-positive rate of a vote in each group.
    gap, accuracy : float
        Largest difference of these rates, and expected accuracy of a vote (posterior means).
    accuracy_free : float
        The same without the constraint on rates: the difference is its price.
    """

    votes: Annotations
    groups: Groups
    share: Floats
    rate: Floats
    gap: float
    accuracy: float
    accuracy_free: float

    def frame(self) -> pl.DataFrame:
        """One row per annotator and group with a share above zero: annotator, group, share."""
        a, g = np.nonzero(self.share > 1e-9)
        names = {"annotator": series_of(self.votes.annotators)[a], "group": series_of(self.groups.names)[g]}
        return pl.DataFrame({**names, "share": self.share[a, g]})


def fair_assignment(
    votes: Any,
    groups: Any,
    truth: Any,
    *,
    positive: Any = None,
    within: float = 0.02,
    most: float = 1.0,
    confidence: float = 0.9,
) -> FairAssignment:
    """Choose who should answer about which group.

    Parameters
    ----------
    votes, groups
        Votes so far, and the group of every item.
    truth : mapping, frame, Series or sequence
        True labels of some items of every group: without them the rates would be circular.
    within : float
        Largest difference of false-positive rates allowed between groups.
    most : float
        Largest share of all questions for one annotator.
    confidence : float
        The accuracy that is maximised is exceeded with this probability, class by class.
    """
    from scipy.special import betaincinv

    if not 0 < confidence < 1:
        raise SettingError(f"confidence must lie strictly between 0 and 1; got {confidence!r}")
    votes = as_annotations(votes)
    found, known = groups_of(votes, groups), encode_gold(votes, truth)
    true = one_hot(known, votes.n_classes)
    shares = np.stack([true[found.codes == g].sum(axis=0) for g in range(found.n_groups)])
    if votes.n_classes < 2 or (shares.sum(axis=1) == 0).any():
        raise InputError("every group needs items of known class, of at least two classes; give more true labels")
    shares = shares / shares.sum(axis=1, keepdims=True)
    k = classes_of(votes.classes, positive)[0]
    beta = matrices_given(votes, found, true).by_group()
    total = beta.sum(axis=3)
    right = np.diagonal(beta, axis1=2, axis2=3)
    lower = betaincinv(right, total - right, 1 - confidence)
    mean = beta / total[..., None]
    others = np.where(np.arange(votes.n_classes) == k, 0.0, shares)
    negative = others / np.maximum(others.sum(axis=1, keepdims=True), 1e-12)
    accuracy, cautious = (np.einsum("agk,gk->ag", part, shares) for part in (right / total, lower))
    rates = np.einsum("agk,gk->ag", mean[..., k], negative)
    weight = found.sizes / found.sizes.sum()
    share, free = (solve_assignment(cautious, rates, weight, limit, most) for limit in (within, 1.0))
    rate = (share * rates).sum(axis=0)
    gained, gained_free = (float(weight @ (part * accuracy).sum(axis=0)) for part in (share, free))
    return FairAssignment(votes, found, share, rate, float(np.ptp(rate)), gained, gained_free)


def solve_assignment(accuracy: Floats, rates: Floats, weight: Floats, within: float, most: float) -> Floats:
    """The linear program: shares [A, G] from accuracies and rates, both [A, G], and shares of questions [G]."""
    from scipy.optimize import linprog
    from scipy.sparse import csr_array, hstack, kron, vstack

    n_annotators, n_groups = accuracy.shape
    if not 0 <= within <= 1:
        raise SettingError(f"within must lie between 0 and 1; got {within!r}")
    if most * n_annotators < 1 - 1e-12:
        raise SettingError(f"most={most} for each of {n_annotators} annotators does not cover all questions; raise it")
    # Columns: x by annotator, then group; the last is L, the lowest rate.
    by_group = kron(np.ones((1, n_annotators)), np.eye(n_groups))
    rate = csr_array(by_group) * csr_array(rates.reshape(1, -1))
    floor = csr_array(np.ones((n_groups, 1)))
    load = kron(np.eye(n_annotators), weight[None])
    none = csr_array((n_annotators, 1))
    upper = vstack([hstack([-rate, floor]), hstack([rate, -floor]), hstack([load, none])], format="csr")
    bound = np.concatenate([np.zeros(n_groups), np.full(n_groups, within), np.full(n_annotators, most)])
    whole = hstack([by_group, csr_array((n_groups, 1))], format="csr")
    value = np.append(-(accuracy * weight).ravel(), 0.0)
    done = linprog(value, upper, bound, whole, np.ones(n_groups), bounds=(0, 1), method="highs")
    if done.status != 0:
        raise InputError(f"no assignment has false-positive rates within {within} of each other; allow more")
    return np.asarray(done.x[:-1].reshape(n_annotators, n_groups))
