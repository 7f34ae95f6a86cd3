"""Yan's annotators: how likely a vote is right depends on the item's features.

P(vote = label) = sigmoid(w_a . x_n + gamma_a), wrong answers uniform over the other K - 1 classes. The weights (gamma the
last of them) are drawn around those of the crowd, and the crowd's around a plain better-than-even guess:

    w_a ~ N(mu, I / l2)   for annotators with votes;      mu ~ N((0, ..., 0, 1), I / l2)      (l2 is 1 for gamma)

The M-step takes Newton steps on the weights of all annotators at once (each is a logistic regression of its own, with the
posterior of the class voted as soft target), then sets mu. A step that would lower an annotator's part is shortened.

Symbols
-------
z_ed : [E, d + 1]     features of the item of every vote, and a one
s_e : [E]             w_a . z_e, the log-odds that the vote is right
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.data.storable import storable
from crowdwise.kernels.logistic import logistic_terms
from crowdwise.kernels.numerics import log_sigmoid, segment_sum
from crowdwise.kernels.types import Flags, Floats, Integers
from crowdwise.parts.annotators.model import WithoutMatrices, evidence_of_odds, infer_by_votes, taken, voted_log_lik

__all__ = ["ItemReliability"]


_CENTRE = 1.0
_INTERCEPT_L2 = 1.0


@storable
@dataclass(frozen=True, eq=False)
class ItemReliability(WithoutMatrices):
    """Reliability that is logistic in the item's features.

    Attributes
    ----------
    features : [N, d]
        Of the items; centred, so that zeros stand for an average item.
    weights : [A, d + 1]
        Of the annotators; the last column is the intercept.
    population : [d + 1]
        Of the crowd.
    steps : int
        Newton steps per update.
    """

    shapes: ClassVar[dict[str, str]] = {"features": "nd", "weights": "aw", "population": "w", "voted": "a"}
    features: Floats
    weights: Floats
    population: Floats
    voted: Flags
    l2: float
    n_classes: int
    steps: int

    @classmethod
    def start(cls, features: Floats, n_annotators: int, n_classes: int, *, l2: float = 1.0, steps: int = 2) -> ItemReliability:
        """Before any data: everybody is as reliable on every item."""
        crowd = _centre(features.shape[1])
        return cls(features, np.tile(crowd, (n_annotators, 1)), crowd, np.zeros(n_annotators, bool), l2, n_classes, steps)

    def fits(self, votes: Annotations) -> bool:
        """Whether arrays read from a file agree."""
        return bool(len(self.population) == self.features.shape[1] + 1)

    def update(self, votes: Annotations, posterior: Floats) -> ItemReliability:
        """Newton steps on the annotators' weights, then the crowd's as their (shrunk) mean."""
        rho_e = posterior[votes.item, votes.label]
        weights = _newton(
            self._design(votes.item), votes.annotator, rho_e, votes.weights, self.weights, self.population, self._l2, self.steps
        )
        voted = votes.votes_per_annotator > 0
        crowd = (weights[voted].sum(axis=0) + _centre(self.features.shape[1])) / (voted.sum() + 1)
        # Who has not voted is like the crowd, and must not hold it back.
        return replace(self, weights=np.where(voted[:, None], weights, crowd), population=crowd, voted=voted)

    def infer(self, votes: Annotations, log_prior: Floats, known: Integers, posterior: Floats) -> tuple[float, float]:
        """E-step."""
        base, bonus = self._evidence(votes.annotator, votes.item)
        return infer_by_votes(votes, base, bonus, log_prior, known, posterior)

    def log_lik(self, votes: Annotations, index: Integers) -> Floats:
        """log P(vote | class), [len(index), K]."""
        base, bonus = self._evidence(votes.annotator[index], votes.item[index])
        return voted_log_lik(votes, index, base, bonus)

    def penalty(self) -> float:
        """Minus the log prior densities, up to constants."""
        own = ((self.weights - self.population)[self.voted] ** 2).sum(axis=0)
        return float(self._l2 @ (own + (self.population - _centre(self.features.shape[1])) ** 2) / 2)

    def aligned(self, index: Integers, item_index: Integers) -> ItemReliability:
        """Reorder; an annotator never seen is like the crowd, a new item is an average one."""
        return replace(
            self,
            features=taken(self.features, item_index, 0.0),
            weights=taken(self.weights, index, self.population),
            voted=taken(self.voted, index, False),
        )

    def reliability(self, features: Floats) -> Floats:
        """P(vote = label) of every annotator on items with these features [N, d], [N, A]."""
        return np.asarray(np.exp(log_sigmoid(features @ self.weights[:, :-1].T + self.weights[:, -1])))

    @property
    def _l2(self) -> Floats:
        return np.append(np.full(self.features.shape[1], self.l2), _INTERCEPT_L2)

    def _design(self, item: Integers) -> Floats:
        return np.concatenate([self.features, np.ones((len(self.features), 1))], axis=1)[item]

    def _evidence(self, who: Integers, what: Integers) -> tuple[Floats, Floats]:
        return evidence_of_odds(np.einsum("ed,ed->e", self._design(what), self.weights[who]), self.n_classes)


def _centre(n_features: int) -> Floats:
    """Weights of nobody in particular: right in three of four cases, whatever the item."""
    return np.append(np.zeros(n_features), _CENTRE)


def _newton(
    z_ed: Floats, who: Integers, rho_e: Floats, weight_e: Floats, w_ad: Floats, centre: Floats, l2_d: Floats, steps: int
) -> Floats:
    """Penalised logistic regressions of all annotators at once, [A, d + 1].

    Memory is O(E d + A d^2): the curvatures are summed over votes one column at a time.
    """
    from scipy.sparse import csr_array

    n_annotators, n_columns = w_ad.shape
    of_annotator = csr_array((np.ones(len(who)), (who, np.arange(len(who)))), shape=(n_annotators, len(who)))

    def terms(w: Floats) -> tuple[Floats, Floats, Floats]:
        value, slope, curve = logistic_terms(np.einsum("ed,ed->e", z_ed, w[who]), rho_e, weight_e)
        return segment_sum(who, value, n_annotators) - (w - centre) ** 2 @ l2_d / 2, slope, curve

    for _ in range(steps):
        value, slope, curve = terms(w_ad)
        uphill = of_annotator @ (z_ed * slope[:, None]) - l2_d * (w_ad - centre)
        bend = np.empty((n_annotators, n_columns, n_columns))
        for d in range(n_columns):
            bend[:, d, d:] = of_annotator @ (z_ed[:, d:] * (curve * z_ed[:, d])[:, None])
            bend[:, d:, d] = bend[:, d, d:]
        bend[:, np.arange(n_columns), np.arange(n_columns)] += l2_d
        step = np.linalg.solve(bend, uphill[:, :, None])[:, :, 0]
        # Near the top, rounding decides whether a step climbs; such a step is harmless.
        enough = value - 1e-12 * (1 + np.abs(value))
        for shrink in (0.25, 0.25, 0.0):
            worse = terms(w_ad + step)[0] < enough
            if not worse.any():
                break
            step = np.where(worse[:, None], shrink * step, step)
        w_ad = w_ad + step
        if np.abs(step).max(initial=0.0) < 1e-6:
            break
    return np.asarray(w_ad)
