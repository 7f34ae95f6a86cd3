"""GLAD's annotators: ability times the easiness of the item.

P(vote = label) = sigmoid(a_a exp(b_n)), wrong answers uniform over the other K - 1 classes. Priors
a ~ N(1, 1) and b ~ N(1, 1) fix the scale (a c, exp(b) / c fit equally well) and the sign.

The M-step takes safeguarded Newton steps on all abilities at once, then on all items at once: each
is a one-dimensional problem given the other side, and a step that would lower it is shortened.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.data.storable import storable
from crowdwise.kernels.logistic import LogisticVotes, climb, logistic_terms
from crowdwise.kernels.types import Floats, Integers
from crowdwise.parts.annotators.model import WithoutMatrices, evidence_of_odds, taken, voted_log_lik, weight_of

__all__ = ["AbilityDifficulty"]


_CENTRE = 1.0


@storable
@dataclass(frozen=True, eq=False)
class AbilityDifficulty(WithoutMatrices):
    """Abilities [A] and log-easiness [N]; `right`, `wrong` are earlier answers at average easiness, [A]."""

    shapes: ClassVar[dict[str, str]] = {"right": "a", "wrong": "a", "ability": "a", "log_easiness": "n"}
    right: Floats
    wrong: Floats
    ability: Floats
    log_easiness: Floats
    n_classes: int

    @classmethod
    def start(cls, right: Floats, wrong: Floats, n_items: int, n_classes: int) -> AbilityDifficulty:
        """Before any data: the prior means."""
        return cls(right, wrong, np.full(len(right), _CENTRE), np.full(n_items, _CENTRE), n_classes)

    def update(self, votes: Annotations, posterior: Floats) -> AbilityDifficulty:
        """Newton steps on the abilities, then on the items, up the expected log-likelihood plus log prior."""
        own, easiness = _as_logistic(votes), np.exp(self.log_easiness)
        # d sigmoid / ds changes at most by exp(|change of s|), and s is the ability times an easiness.
        scale = max(float(easiness.max(initial=0.0)), np.exp(_CENTRE))
        ability = climb(lambda a: self._with_ability_prior(a, own.ability_terms(posterior, a, easiness)), self.ability, scale)
        return replace(self, ability=ability, log_easiness=own.climb_easiness(posterior, ability, self.log_easiness, _CENTRE))

    def infer(self, votes: Annotations, log_prior: Floats, known: Integers, posterior: Floats) -> tuple[float, float]:
        """E-step."""
        return _as_logistic(votes).infer(self.ability, self.log_easiness, log_prior, known, posterior)

    def log_lik(self, votes: Annotations, index: Integers) -> Floats:
        """log P(vote | class), [len(index), K]."""
        base, bonus = self._evidence(votes.annotator[index], votes.item[index])
        return voted_log_lik(votes, index, base, bonus)

    def penalty(self) -> float:
        """Minus the log prior densities (up to constants) and the log-likelihood of earlier answers."""
        earlier = self._with_ability_prior(self.ability, np.zeros((len(self.ability), 3)))[:, 0]
        return float(0.5 * ((self.log_easiness - _CENTRE) ** 2).sum() - earlier.sum())

    def aligned(self, index: Integers, item_index: Integers) -> AbilityDifficulty:
        """Reorder; an annotator never seen has the mean ability, a new item average easiness."""
        typical = float(self.ability.mean()) if len(self.ability) else _CENTRE
        return replace(
            self,
            right=taken(self.right, index, 0.0),
            wrong=taken(self.wrong, index, 0.0),
            ability=taken(self.ability, index, typical),
            log_easiness=taken(self.log_easiness, item_index, _CENTRE),
        )

    def _evidence(self, who: Integers, what: Integers) -> tuple[Floats, Floats]:
        return evidence_of_odds(self.ability[who] * np.exp(self.log_easiness)[what], self.n_classes)

    def _with_ability_prior(self, a: Floats, terms: Floats) -> Floats:
        """Add the N(1, 1) prior and the annotator's earlier answers, taken at average easiness."""
        scale = np.exp(_CENTRE)
        total = self.right + self.wrong
        share = np.where(total > 0, self.right / np.where(total > 0, total, 1.0), 0.0)
        value, slope, curve = logistic_terms(a * scale, share, total)
        prior = [value - 0.5 * (a - _CENTRE) ** 2, slope * scale + _CENTRE - a, curve * scale**2 + 1]
        return np.asarray(terms + np.column_stack(prior))


def _as_logistic(votes: Annotations) -> LogisticVotes:
    return LogisticVotes(votes.item_ptr, votes.annotator, votes.label, weight_of(votes))
