"""How often annotators choose labels that apply, and leave out those that do not, with skill shared across labels.

A coin has one probability per annotator and label, on the logit scale a sum of an annotator's skill, a label's ease and an
interaction, each with a Gaussian prior:

    logit p_al = skill_a + ease_l + own_al
    skill_a ~ N(0, skill_sd^2),  ease_l ~ N(centre, ease_sd^2),  own_al ~ N(0, own_sd^2)

so that an annotator is known on a label it has rarely met by its answers on the others. The M-step climbs by the quadratic
bound of Jaakkola and Jordan (the EM of Polson, Scott and Windle), which is exact at the present value, so every step climbs.

Symbols
-------
yes_al, total_al : [A, K]   expected answers "chosen", and all answers, where the label applies (or does not)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from crowdwise.kernels.numerics import log_sigmoid
from crowdwise.kernels.types import Floats

__all__ = ["Coin"]


_SWEEPS = 3


@dataclass(frozen=True, eq=False)
class Coin:
    """Probability of one answer per annotator and label."""

    skill_a: Floats
    ease_l: Floats
    own_al: Floats
    centre: float
    skill_sd: float
    ease_sd: float
    own_sd: float

    @classmethod
    def start(cls, n_annotators: int, n_labels: int, share: float, skill_sd: float, ease_sd: float, own_sd: float) -> Coin:
        """Everybody alike, right in `share` of the cases."""
        centre = float(np.log(share / (1 - share)))
        ease = np.full(n_labels, centre)
        return cls(np.zeros(n_annotators), ease, np.zeros((n_annotators, n_labels)), centre, skill_sd, ease_sd, own_sd)

    @property
    def logit(self) -> Floats:
        """[A, K]."""
        return np.asarray(self.skill_a[:, None] + self.ease_l + self.own_al)

    @property
    def probability(self) -> Floats:
        """[A, K]."""
        return np.exp(log_sigmoid(self.logit))

    def log_prob(self) -> tuple[Floats, Floats]:
        """Logs of the probability and of its complement, two of [A, K]."""
        return log_sigmoid(self.logit), log_sigmoid(-self.logit)

    def update(self, yes_al: Floats, total_al: Floats) -> Coin:
        """Climb the expected log-likelihood plus log prior."""
        kappa, coin = yes_al - total_al / 2, self
        for _ in range(_SWEEPS):
            weight = _weight(coin.logit, total_al)
            own = (kappa - weight * (coin.logit - coin.own_al)) / (weight + _precision(self.own_sd))
            coin = replace(coin, own_al=own)
            weight = _weight(coin.logit, total_al)
            rest = kappa - weight * (coin.logit - coin.skill_a[:, None])
            coin = replace(coin, skill_a=rest.sum(axis=1) / (weight.sum(axis=1) + _precision(self.skill_sd)))
            weight = _weight(coin.logit, total_al)
            rest = kappa - weight * (coin.logit - coin.ease_l)
            pull = _precision(self.ease_sd)
            coin = replace(coin, ease_l=(rest.sum(axis=0) + self.centre * pull) / (weight.sum(axis=0) + pull))
        return coin

    def penalty(self) -> float:
        """Minus the log prior, up to constants."""
        parts: tuple[tuple[Any, float], ...] = (
            (self.skill_a, self.skill_sd),
            (self.ease_l - self.centre, self.ease_sd),
            (self.own_al, self.own_sd),
        )
        return float(sum(0.5 * _precision(sd) * (value * value).sum() for value, sd in parts))


def _precision(sd: float) -> float:
    return 1.0 / max(sd, 1e-6) ** 2


def _weight(logit: Floats, total: Floats) -> Floats:
    """Curvature of the bound: tanh(x / 2) / (2 x), 1/4 at zero, times the number of answers."""
    size = np.maximum(np.abs(logit), 1e-8)
    return np.asarray(total * np.tanh(size / 2) / (2 * size))
