"""Which labels go together: a mixture of patterns, each with a probability of its own for every label.

    P(labels y of an item) = sum_c share_c prod_l theta_cl^y_l (1 - theta_cl)^(1 - y_l)

One pattern means independent labels. Given the pattern labels are independent, so that the sum over all 2^K sets of labels
is a product of K sums of two terms: inference is exact, in O(patterns x labels) per item.

Symbols
-------
yes_nl, no_nl : [N, K]   log-probability of the answers on an item if the label applies, and if it does not
share_c : [C]            of the patterns
theta_cl : [C, K]        probability of each label in each pattern
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from crowdwise.data.answers import ReadOnly
from crowdwise.data.storable import storable
from crowdwise.kernels.numerics import log_floored, softmax
from crowdwise.kernels.types import Flags, Floats

__all__ = ["Patterns", "Posterior"]


# Log-odds beyond which exp would overflow.
_LARGEST = 600.0
# A label of a pattern starts at this probability, or its complement.
_SURE = 0.8


@dataclass(frozen=True, eq=False)
class Posterior:
    """What is known of items: `pattern` [N, C], and `given` [C, N, K], the labels if the pattern is this one."""

    pattern: Floats
    given: Floats

    @property
    def label(self) -> Floats:
        """Probability of every label, [N, K]."""
        return np.asarray(np.einsum("nc,cnl->nl", self.pattern, self.given))

    def of_set(self, chosen: Flags) -> Floats:
        """Probability of exactly these labels, [N]."""
        each = np.where(chosen, self.given, 1 - self.given).prod(axis=2)
        return np.asarray((self.pattern.T * each).sum(axis=0))


@storable
@dataclass(frozen=True, eq=False)
class Patterns(ReadOnly):
    """Shares of patterns and of labels in them; `centre` [K] and `weight` are a Beta prior on the latter."""

    share_c: Floats
    theta_cl: Floats
    centre: Floats
    weight: float

    @classmethod
    def start(cls, shares_nl: Floats, n_patterns: int, weight: float) -> tuple[Patterns, Posterior]:
        """From shares of answers: the commonest sets are the patterns; and the posterior that goes with them."""
        n_items, n_labels = shares_nl.shape
        centre = (shares_nl.sum(axis=0) + 0.5) / (n_items + 1)
        if n_patterns == 1 or n_items == 0:
            theta = centre[None]
        else:
            sets, count = np.unique(shares_nl > 0.5, axis=0, return_counts=True)
            common = sets[np.lexsort((np.arange(len(sets)), -count))[:n_patterns]]
            theta = np.where(common, _SURE, 1 - _SURE)
        scores = shares_nl @ np.log(theta).T + (1 - shares_nl) @ np.log(1 - theta).T
        given = np.broadcast_to(shares_nl, (len(theta), n_items, n_labels))
        return cls(np.full(len(theta), 1 / len(theta)), theta, centre, weight), Posterior(softmax(scores), given)

    def update(self, posterior: Posterior) -> Patterns:
        """M-step: shares of patterns with a pseudo-item each in all, labels with `weight` pseudo-items."""
        mass = posterior.pattern.sum(axis=0)
        share = mass + 1 / len(mass)
        hits = np.einsum("nc,cnl->cl", posterior.pattern, posterior.given)
        theta = (hits + self.weight * self.centre) / (mass[:, None] + self.weight)
        return replace(self, share_c=share / share.sum(), theta_cl=theta)

    def infer(self, yes_nl: Floats, no_nl: Floats) -> tuple[Posterior, float]:
        """Exact posterior, and the log-evidence of all items."""
        n_items, n_labels = yes_nl.shape
        scores, given = np.zeros((n_items, len(self.share_c))), np.zeros((len(self.share_c), n_items, n_labels))
        # Odds once for all patterns; cut where no prior could turn them.
        odds, base = np.exp(np.clip(yes_nl - no_nl, -_LARGEST, _LARGEST)), no_nl.sum(axis=1)
        for c, theta in enumerate(self.theta_cl):
            on = theta * odds
            either = on + (1 - theta)
            np.divide(on, either, out=given[c])
            scores[:, c] = np.log(self.share_c[c]) + base + np.log(either, out=either).sum(axis=1)
        top = scores.max(axis=1, keepdims=True, initial=-np.inf)
        pattern = np.exp(scores - top)
        total = pattern.sum(axis=1, keepdims=True)
        return Posterior(pattern / total, given), float((top + np.log(total)).sum())

    def penalty(self) -> float:
        """Minus the log prior, up to constants."""
        on, off = log_floored(self.theta_cl), log_floored(1 - self.theta_cl)
        labels = self.weight * (self.centre * on + (1 - self.centre) * off).sum()
        return float(-labels - np.log(self.share_c).sum() / len(self.share_c))

    @property
    def probability(self) -> Floats:
        """Share of items that every label applies to, [K]."""
        return np.asarray(self.share_c @ self.theta_cl)
