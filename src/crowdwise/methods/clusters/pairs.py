"""Answers by pair: all answers on a pair, in either order of its items, speak of one true link.

Symbols
-------
i, j : [P]                the items of every pair that was asked about, i < j
pair_e : [E]              pair of every answer
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from crowdwise.kernels.numerics import segment_sum
from crowdwise.kernels.types import Flags, Floats, Integers

if TYPE_CHECKING:
    from crowdwise.data.similarities import Similarities

__all__ = ["Pairs", "Rates"]


# A rate of exactly 0 or 1 would let one answer outweigh all others.
_EDGE = 1e-4


@dataclass(frozen=True, eq=False)
class Pairs:
    """Answers grouped by unordered pair."""

    i: Integers
    j: Integers
    pair_e: Integers
    annotator: Integers
    same: Flags
    weight: Floats
    n_items: int
    n_annotators: int

    @classmethod
    def of(cls, votes: Similarities) -> Pairs:
        """Group the answers."""
        low, high = np.minimum(votes.first, votes.second), np.maximum(votes.first, votes.second)
        key, pair = np.unique(low.astype(np.int64) * max(votes.n_items, 1) + high, return_inverse=True)
        i, j = np.divmod(key, max(votes.n_items, 1))
        return cls(
            i, j, pair, votes.annotator, votes.outcome > 0, np.asarray(votes.weights, float), votes.n_items, votes.n_annotators
        )

    def __len__(self) -> int:
        return len(self.i)

    def take(self, keep: Flags) -> Pairs:
        """The pairs of a mask, [P], with their answers; items and annotators stay."""
        code = np.cumsum(keep) - 1
        answers = keep[self.pair_e]
        return replace(
            self,
            i=self.i[keep],
            j=self.j[keep],
            pair_e=code[self.pair_e[answers]],
            annotator=self.annotator[answers],
            same=self.same[answers],
            weight=self.weight[answers],
        )

    def share_same(self) -> Floats:
        """Share of "same" among the answers on every pair, [P]."""
        total = np.bincount(self.pair_e, weights=self.weight, minlength=len(self))
        said = np.bincount(self.pair_e, weights=self.weight * self.same, minlength=len(self))
        return np.asarray(np.divide(said, total, out=np.full(len(self), 0.5), where=total > 0))


@dataclass(frozen=True, eq=False)
class Rates:
    """How often annotators say "same" of linked pairs (hit) and of others (false alarm), [A] each: MAP under Beta priors.

    A hit and a rejected other count as right: both rates have `right` and `wrong` pseudo-answers.
    """

    hit: Floats
    false_alarm: Floats
    right: float
    wrong: float

    @classmethod
    def start(cls, n_annotators: int, right: float, wrong: float) -> Rates:
        """Before any data: the prior's modes."""
        share = np.full(n_annotators, right / (right + wrong) if right + wrong else 0.5)
        return cls(share, 1 - share, right, wrong)

    def update(self, pairs: Pairs, link: Floats) -> Rates:
        """Fit to the probability of every link, [P]."""

        def rate(mass: Floats, said: float, unsaid: float) -> Floats:
            yes = np.bincount(pairs.annotator, weights=mass * pairs.same, minlength=pairs.n_annotators) + said
            total = np.bincount(pairs.annotator, weights=mass, minlength=pairs.n_annotators) + said + unsaid
            share = np.divide(yes, total, out=np.full(len(yes), 0.5), where=total > 0)
            return np.asarray(np.clip(share, _EDGE, 1 - _EDGE))

        linked = pairs.weight * link[pairs.pair_e]
        return replace(
            self,
            hit=rate(linked, self.right, self.wrong),
            false_alarm=rate(pairs.weight - linked, self.wrong, self.right),
        )

    def evidence(self, pairs: Pairs) -> tuple[Floats, Floats]:
        """Log-probability of all answers on a pair if it is linked, and if it is not, [P] each."""

        def summed(rate: Floats) -> Floats:
            share = rate[pairs.annotator]
            each = pairs.weight * np.log(np.where(pairs.same, share, 1 - share))
            return segment_sum(pairs.pair_e, each, len(pairs))

        return summed(self.hit), summed(self.false_alarm)

    def penalty(self) -> float:
        """Minus the log-density of the Beta priors, up to its constant."""
        right = np.log(self.hit).sum() + np.log1p(-self.false_alarm).sum()
        wrong = np.log1p(-self.hit).sum() + np.log(self.false_alarm).sum()
        return float(-self.right * right - self.wrong * wrong)
