"""The expected label distribution of an item once its open questions are answered.

An item's label has the distribution q. An answer l of annotator a comes with probability mu_l = sum_k q_k R_a[k, l] and makes
it q_k R_a[k, l] / mu_l, with R_a the matrix that is expected for the item (see `crowdwise.campaign.answers`). The questions
asked about an item make a tree of such answers, kept as weighted branches. Another question about the same item gains the mean
of its gains on each branch: of annotators who are known, and for the policy
"information", that is I(z; y_b | y_a), exactly.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from crowdwise.campaign.expected_gain import entropy
from crowdwise.kernels.types import Floats, Integers

if TYPE_CHECKING:
    from crowdwise.campaign.policies import Policy, State

__all__ = ["Lookahead"]


# Branches kept of an item; of more, so many are drawn.
_BRANCHES = 64


class Lookahead:
    """Weighted branches of the items that have been asked about."""

    def __init__(self, state: State) -> None:
        self.state = state
        self._branches: dict[int, tuple[Floats, Floats]] = {}
        pool = state.pool
        for item, annotator in zip(pool.open_item.tolist(), pool.open_annotator.tolist(), strict=True):
            self.ask(item, annotator)

    def __contains__(self, item: int) -> bool:
        return item in self._branches

    def branches(self, item: int) -> tuple[Floats, Floats]:
        """Weights [B] and the distribution of the label on each branch [B, K]."""
        if item not in self._branches:
            return np.ones(1), self.state.labels(np.array([item]))
        return self._branches[item]

    def ask(self, item: int, annotator: int) -> None:
        """A question whose answer is not known yet."""
        weight, q = self.branches(item)
        matrix = self.state.answers.of(np.array([item])).matrix(annotator)
        joint = weight[:, None, None] * q[:, :, None] * matrix[None]
        chance = joint.sum(axis=1)
        there = chance > 0
        weight, q = chance[there], joint.transpose(0, 2, 1)[there] / chance[there][:, None]
        if len(weight) > _BRANCHES:
            # Systematic draws: the mean over the branches stays what it was, up to little noise.
            ticks = (np.arange(_BRANCHES) + self.state.rng.random()) / _BRANCHES * weight.sum()
            drawn = np.minimum(np.searchsorted(weight.cumsum(), ticks), len(weight) - 1)
            weight, q = np.full(_BRANCHES, 1 / _BRANCHES), q[drawn]
        self._branches[item] = weight / weight.sum(), q

    def pairs(self, policy: Policy, item: int) -> Floats:
        """Expected gain of asking every annotator about the item, [A]."""
        weight, q = self.branches(item)
        scores = policy.pairs(replace(self.state, supposed=q, known=self.state.answers), np.full(len(weight), item))
        return np.asarray(weight @ scores)

    def discounted(self, score: Floats, items: Integers) -> Floats:
        """Scores of items, [P], less the part that open questions are expected to settle."""
        left = np.ones(len(items))
        for place in np.flatnonzero(np.isin(items, list(self._branches))).tolist():
            left[place] = self.share(int(items[place]))
        return np.asarray(score - (1 - left) * np.abs(score))

    def share(self, item: int) -> float:
        """Share of the item's uncertainty that the answers are expected to leave: mean entropy by present entropy."""
        weight, q = self.branches(item)
        now = float(entropy(self.state.labels(np.array([item])))[0])
        return float(weight @ entropy(q)) / now if now > 0 else 0.0
