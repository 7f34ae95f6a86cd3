"""GLAD's annotators: ability times the easiness of the item.

P(vote = label) = sigmoid(a_a exp(b_n)), wrong answers uniform over the other K - 1 classes. Priors
a ~ N(1, 1) and b ~ N(1, 1) fix the scale (a c, exp(b) / c fit equally well) and the sign.

The M-step takes safeguarded Newton steps on all abilities at once, then on all items at once: each
is a one-dimensional problem given the other side, and a step that would lower it is halved.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from crowdwise.annotators.protocol import infer_by_votes, voted_log_lik, voted_mass
from crowdwise.kernels.numerics import log_sigmoid, segment_sum

if TYPE_CHECKING:
    from crowdwise.annotations import Annotations

__all__ = ["AbilityDifficulty"]

Floats = NDArray[np.float64]
Integers = NDArray[Any]

_CENTRE = 1.0
_SWEEPS = 2
_HALVINGS = 6


@dataclass(frozen=True, eq=False)
class AbilityDifficulty:
    """Abilities [A] and log-easiness [N]; `right`, `wrong` are earlier answers at average easiness, [A]."""

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
        """A few sweeps of Newton steps on the expected log-likelihood plus log prior."""
        rho = voted_mass(votes, posterior)
        weight = np.ones(votes.n_votes) if votes.weight is None else votes.weight
        who, what = votes.annotator, votes.item
        ability, easiness = self.ability, self.log_easiness
        for _ in range(_SWEEPS):
            scale_e = np.exp(easiness)[what]

            def of_ability(a: Floats, scale_e: Floats = scale_e) -> tuple[Floats, Floats, Floats]:
                value, slope, curve = _terms(a[who] * scale_e, rho, weight)
                sums = [segment_sum(who, part, len(a)) for part in (value, slope * scale_e, curve * scale_e**2)]
                return self._with_ability_prior(a, *sums)

            ability = _climb(of_ability, ability)
            ability_e = ability[who]

            def of_easiness(b: Floats, ability_e: Floats = ability_e) -> tuple[Floats, Floats, Floats]:
                inner = ability_e * np.exp(b)[what]
                value, slope, curve = _terms(inner, rho, weight)
                sums = [segment_sum(what, part, len(b)) for part in (value, slope * inner, curve * inner**2)]
                return sums[0] - 0.5 * (b - _CENTRE) ** 2, sums[1] - (b - _CENTRE), sums[2] + 1

            easiness = _climb(of_easiness, easiness)
        return replace(self, ability=ability, log_easiness=easiness)

    def infer(self, votes: Annotations, log_prior: Floats, known: Integers, posterior: Floats) -> tuple[float, float]:
        """E-step."""
        base, bonus = self._evidence(votes.annotator, votes.item)
        return infer_by_votes(votes, base, bonus, log_prior, known, posterior)

    def log_lik(self, votes: Annotations, index: Integers) -> Floats:
        """log P(vote | class), [len(index), K]."""
        base, bonus = self._evidence(votes.annotator[index], votes.item[index])
        return voted_log_lik(votes, index, base, bonus)

    def penalty(self) -> float:
        """Minus the log prior densities (up to constants) and the log-likelihood of earlier answers."""
        earlier, _, _ = self._with_ability_prior(self.ability, *(np.zeros_like(self.ability) for _ in range(3)))
        return float(0.5 * ((self.log_easiness - _CENTRE) ** 2).sum() - earlier.sum())

    def aligned(self, index: Integers, item_index: Integers) -> AbilityDifficulty:
        """Reorder; an annotator never seen has the mean ability, a new item average easiness."""
        typical = float(self.ability.mean()) if len(self.ability) else _CENTRE
        return replace(
            self,
            right=np.append(self.right, 0.0)[index],
            wrong=np.append(self.wrong, 0.0)[index],
            ability=np.append(self.ability, typical)[index],
            log_easiness=np.append(self.log_easiness, _CENTRE)[item_index],
        )

    def confusion(self) -> None:
        """Accuracy depends on the item; the result reports a plug-in estimate."""
        return None

    def concentration(self) -> None:
        """No Dirichlet posterior."""
        return None

    def _evidence(self, who: Integers, what: Integers) -> tuple[Floats, Floats]:
        strength = self.ability[who] * np.exp(self.log_easiness)[what]
        others = np.log(max(self.n_classes - 1, 1))
        return log_sigmoid(-strength) - others, strength + others

    def _with_ability_prior(self, a: Floats, value: Floats, slope: Floats, curve: Floats) -> tuple[Floats, Floats, Floats]:
        """Add the N(1, 1) prior and the annotator's earlier answers, taken at average easiness."""
        scale = np.exp(_CENTRE)
        total = self.right + self.wrong
        share = np.where(total > 0, self.right / np.where(total > 0, total, 1.0), 0.0)
        past_value, past_slope, past_curve = _terms(a * scale, share, total)
        return (
            value + past_value - 0.5 * (a - _CENTRE) ** 2,
            slope + past_slope * scale - (a - _CENTRE),
            curve + past_curve * scale**2 + 1,
        )


def _terms(s: Floats, rho: Floats, weight: Floats) -> tuple[Floats, Floats, Floats]:
    """Value, slope and negative curvature in s of weight [rho log sigmoid(s) + (1 - rho) log sigmoid(-s)]."""
    # log sigmoid(-s) = log sigmoid(s) - s, so one transcendental serves both sides and the sigmoid itself.
    log_right = log_sigmoid(s)
    sigma = np.exp(log_right)
    return weight * (log_right - (1 - rho) * s), weight * (rho - sigma), weight * sigma * (1 - sigma)


def _climb(objective: Callable[[Floats], tuple[Floats, Floats, Floats]], x: Floats) -> Floats:
    """One Newton step on every coordinate, halved where it would not climb."""
    value, slope, curve = objective(x)
    step = np.clip(slope / curve, -1.0, 1.0)
    for _ in range(_HALVINGS):
        worse = objective(x + step)[0] < value
        if not worse.any():
            return np.asarray(x + step)
        step = np.where(worse, step / 2, step)
    return np.asarray(np.where(objective(x + step)[0] < value, x, x + step))
