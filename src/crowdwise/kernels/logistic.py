"""Sums over votes for models of the form P(vote is right) = sigmoid(ability x easiness).

Per vote, s = ability_a easiness_n and the expected log-likelihood is
weight [rho log sigmoid(s) + (1 - rho) log sigmoid(-s)], rho the posterior of the class voted.
"""

from __future__ import annotations

import numpy as np

from crowdwise.kernels.numerics import COMPILED_FROM, in_ranges, item_of_votes, log_sigmoid, segment_sum
from crowdwise.kernels.types import Floats, Integers

__all__ = ["ability_terms", "easiness_terms", "logistic_terms"]


def ability_terms(
    item_ptr: Integers,
    annotator: Integers,
    label: Integers,
    weight: Floats,
    posterior: Floats,
    ability: Floats,
    easiness: Floats,
) -> Floats:
    """Value, slope and negative curvature by the ability of every annotator, [A, 3]."""
    if len(label) < COMPILED_FROM:
        item = item_of_votes(item_ptr)
        scale = easiness[item]
        value, slope, curve = _terms_of_votes(ability[annotator] * scale, posterior[item, label], weight)
        return np.column_stack([segment_sum(annotator, t, len(ability)) for t in (value, slope * scale, curve * scale**2)])
    from crowdwise.kernels import loops

    def add(start: int, stop: int) -> Floats:
        sums = np.zeros((len(ability), 3))
        loops.ability_terms(start, stop, item_ptr, annotator, label, weight, posterior, ability, easiness, sums)
        return sums

    return np.asarray(sum(in_ranges(item_ptr, add)))


def easiness_terms(
    item_ptr: Integers,
    annotator: Integers,
    label: Integers,
    weight: Floats,
    posterior: Floats,
    ability: Floats,
    easiness: Floats,
) -> Floats:
    """Value, slope and (Gauss-Newton) negative curvature by the log-easiness of every item, [N, 3]."""
    if len(label) < COMPILED_FROM:
        item = item_of_votes(item_ptr)
        s = ability[annotator] * easiness[item]
        value, slope, curve = _terms_of_votes(s, posterior[item, label], weight)
        return np.column_stack([segment_sum(item, t, len(easiness)) for t in (value, slope * s, curve * s**2)])
    from crowdwise.kernels import loops

    sums = np.zeros((len(easiness), 3))
    in_ranges(
        item_ptr,
        lambda start, stop: loops.easiness_terms(
            start, stop, item_ptr, annotator, label, weight, posterior, ability, easiness, sums
        ),
    )
    return sums


def logistic_terms(s: Floats, rho: Floats, weight: Floats) -> tuple[Floats, Floats, Floats]:
    """Value, slope and negative curvature in s of weight [rho log sigmoid(s) + (1 - rho) log sigmoid(-s)]."""
    # log sigmoid(-s) = log sigmoid(s) - s, so one transcendental serves both sides and the sigmoid itself.
    log_right = log_sigmoid(s)
    sigma = np.exp(log_right)
    return weight * (log_right - (1 - rho) * s), weight * (rho - sigma), weight * sigma * (1 - sigma)


def _terms_of_votes(s: Floats, rho: Floats, weight: Floats) -> tuple[Floats, Floats, Floats]:
    return logistic_terms(s, rho, weight if len(weight) else np.ones(len(s)))
