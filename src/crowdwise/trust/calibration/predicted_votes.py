"""A temperature without any true label: the one under which the posterior predicts held-out votes best.

For a vote of annotator a on item n, held out together with all votes on n of those who share a's errors,

    p(y | the other votes) = sum_k q_nk(T) R_a(T)[k, y],     q_n(T) = q_n^(1/T) / const

where q_n is the posterior given the other votes. R(T) is estimated under q(T), not kept from the fit:

    R_a(T)[k, l] = (sum_n q_nk(T) 1[y_na = l] + s pooled[k, l]) / const,   sums over the votes that were kept

Why this finds the right T. Suppose some q(T*) is calibrated: q_nk(T*) = P(z_n = k | kept votes on n). Then the counts have
the expectation P(z = k, y_a = l) (the tower rule; a kept vote is among those that q(T*) is given), so R(T*) is the true
confusion matrix, and because a is independent of the kept annotators given z, the mixture is the true predictive
probability, which no other T beats in expectation (Gibbs). Two conditions matter. With R fixed as fitted, a flatter q and a
sharper R would make up for each other. And were only the single vote held out, its copies would stay: they predict it well
whatever the true class is. So all votes of a group on an item are held out together.

What it cannot see: errors that all annotators of an item share. Where a whole crowd is one group, only gold helps.

Because of this, T < 1 (more certain than the model) is taken only where the gain exceeds two standard errors; else T = 1.

The pseudo-votes s are chosen along with T. Otherwise a flat q would be preferred merely because it keeps the matrices of
annotators with few votes near the crowd's.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.errors import CrowdwiseWarning, InputError
from crowdwise.estimator.outcome import Result
from crowdwise.kernels.numerics import log_floored, segment_sum
from crowdwise.kernels.types import Flags, Floats, Integers
from crowdwise.parts.annotators.model import counts_of
from crowdwise.trust.calibration.base import with_posterior
from crowdwise.trust.calibration.temperature import Temperature, tempered
from crowdwise.trust.heldout import deal

__all__ = ["VotesTemperature", "deal_by_group", "temperature_by_votes"]


_LOG_TEMPERATURES = np.log([0.5, 0.7, 1.0, 1.4, 2.0, 2.8, 4.0, 5.7, 8.0, 11.3, 16.0])
_PSEUDO_VOTES = (0.5, 2.0, 8.0, 32.0, 128.0)
# Surprises cost much, not everything; as in `crowdwise.trust.heldout`.
_FLOOR = 1e-12


@dataclass(frozen=True)
class VotesTemperature:
    """The temperature that held-out votes ask for, and how strongly.

    Attributes
    ----------
    value : float
        The temperature.
    gain, gain_se : float
        By how much it raises the mean log-probability of a held-out vote over that at T = 1, and the standard error of this.
    n_votes : int
        Held-out votes.
    """

    value: float
    gain: float
    gain_se: float
    n_votes: int

    def result(self, result: Result) -> Result:
        """Return `result` with its posterior tempered."""
        return with_posterior(result, Temperature(self.value).apply(result.posterior))


class _Fold(NamedTuple):
    """A fit to the kept votes, and the votes that it must predict."""

    kept: Annotations
    log_posterior: Floats
    fixed: Flags
    held: Integers


def temperature_by_votes(
    fit: Callable[[Annotations], Result],
    votes: Annotations,
    *,
    group: Integers | None = None,
    folds: int = 5,
    seed: int = 0,
) -> VotesTemperature:
    """Choose the temperature of a method's posterior by held-out votes.

    Parameters
    ----------
    fit : callable
        From votes to a `Result`: ``lambda votes: make("dawid-skene").fit(votes).result_``.
    group : [A], optional
        Group of every annotator, -1 for those who stand alone: see `crowdwise.trust.calibration.effective_votes.groups_in`.
    """
    if group is None:
        group = np.full(votes.n_annotators, -1)
    fold_e = deal_by_group(votes, group, folds, seed)
    if not (fold_e >= 0).any():
        raise InputError(
            "no vote can be held out: no item has votes of two annotators who are independent of each other; "
            "collect more votes per item, calibrate with true labels, or do not calibrate (how='none' or --how none)"
        )
    parts = []
    for number in range(folds):
        index = np.flatnonzero(fold_e == number)
        if len(index):
            kept = votes.take_votes(fold_e != number)
            with warnings.catch_warnings():
                # The fit to all votes has already said what is to be said of them.
                warnings.simplefilter("ignore", CrowdwiseWarning)
                posterior = fit(kept).posterior
            fixed = kept.votes_per_item == 0
            parts.append(_Fold(kept, log_floored(posterior), fixed, index))
    return _Search(votes, parts).best()


def deal_by_group(votes: Annotations, group: Integers, folds: int = 5, seed: int = 0) -> Integers:
    """Fold of every vote, [E], as `crowdwise.trust.heldout.deal`, but all votes of a group on an item share one.

    -1, never held out, where an item has the votes of one group (or one annotator) alone.
    """
    who = np.where(group >= 0, group, group.max(initial=-1) + 1 + np.arange(len(group)))
    key = votes.item.astype(np.int64) * (int(who.max(initial=0)) + 1) + who[votes.annotator]
    _, first, cell = np.unique(key, return_index=True, return_inverse=True)
    chosen = np.zeros(votes.n_votes, bool)
    chosen[first] = True
    fold = np.full(votes.n_votes, -1)
    # One vote stands for its cell while folds are dealt.
    fold[chosen] = deal(votes.take_votes(chosen), folds, seed)
    return fold[first][cell]


class _Search:
    """The mean log-probability of the held-out votes as a function of temperature and pseudo-votes."""

    def __init__(self, votes: Annotations, parts: list[_Fold]) -> None:
        self.votes, self.parts = votes, parts

    @cached_property
    def index(self) -> Integers:
        return np.concatenate([part.held for part in self.parts])

    def log_prob(self, log_temperature: float, pseudo: float) -> Floats:
        """Of every held-out vote, in the order of `index`."""
        votes, chances = self.votes, []
        for kept, log_posterior, fixed, index in self.parts:
            q_nk = np.where(fixed[:, None], np.exp(log_posterior), tempered(log_posterior, float(np.exp(log_temperature))))
            counts_alk = counts_of(kept, q_nk)
            pooled_lk = counts_alk.sum(axis=0) + 1 / votes.n_classes
            pooled_lk /= pooled_lk.sum(axis=0)
            counts_alk += pseudo * pooled_lk
            counts_alk /= counts_alk.sum(axis=1, keepdims=True)
            rows = counts_alk[votes.annotator[index], votes.label[index]]
            chances.append((q_nk[votes.item[index]] * rows).sum(axis=1))
        return np.asarray(np.log(np.maximum(np.concatenate(chances), _FLOOR)))

    def mean(self, log_temperature: float, pseudo: float) -> float:
        return float(self.log_prob(log_temperature, pseudo).mean())

    def best(self) -> VotesTemperature:
        """Alternate: pseudo-votes for a temperature, then the temperature for them, first on a grid."""
        from scipy.optimize import minimize_scalar

        plain = max(_PSEUDO_VOTES, key=lambda pseudo: self.mean(0.0, pseudo))
        coarse = max(_LOG_TEMPERATURES, key=lambda log_t: self.mean(log_t, plain))
        pseudo = max(_PSEUDO_VOTES, key=lambda pseudo: self.mean(coarse, pseudo))
        found = minimize_scalar(
            lambda log_t: -self.mean(log_t, pseudo),
            bounds=(coarse - 0.36, coarse + 0.36),
            method="bounded",
            options={"xatol": 5e-3},
        )
        difference = self.log_prob(float(found.x), pseudo) - self.log_prob(0.0, plain)
        # Votes on one item are not independent of each other; items are.
        per_item = segment_sum(self.votes.item[self.index], difference, self.votes.n_items)
        per_item = per_item[segment_sum(self.votes.item[self.index], None, self.votes.n_items) > 0]
        error = float(per_item.std() * np.sqrt(len(per_item)) / len(difference))
        gain = float(difference.mean())
        if gain <= 0 or (found.x < 0 and gain < 2 * error):
            return VotesTemperature(1.0, 0.0, error, len(difference))
        return VotesTemperature(float(np.exp(found.x)), gain, error, len(difference))
