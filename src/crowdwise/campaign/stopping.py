"""When to stop; how much is still to ask is in `crowdwise.campaign.planning`.

An item's label is right with probability max_k q_nk, so that the number of right labels is a sum of independent trials:
its distribution is exact for small sets and normal for large ones. All of this believes the posterior; where that is
overconfident (see `crowdwise compare` with gold labels), so are these answers.
"""

from __future__ import annotations

import numpy as np

from crowdwise.campaign.planning import Plan, plan
from crowdwise.errors import SettingError
from crowdwise.estimator.outcome import Result
from crowdwise.kernels.types import Floats, Integers

__all__ = ["Plan", "chance_of", "expected_accuracy", "plan", "reached"]


# Sets up to this size get the exact distribution.
_EXACT = 500


def expected_accuracy(result: Result, level: float = 0.95, items: Integers | None = None) -> tuple[float, float, float]:
    """Expected share of right labels, of all items or of those at some positions, and the ends of its central interval."""
    right = _right(result, items)
    if not len(right):
        return float("nan"), float("nan"), float("nan")
    low, high = (_quantile(right, (1 + sign * level) / 2) for sign in (-1, 1))
    return float(right.mean()), low, high


def chance_of(result: Result, target: float, items: Integers | None = None) -> float:
    """Probability that at least the share `target` of the labels is right, of all items or of those at some positions."""
    right = _right(result, items)
    needed = int(np.ceil(target * len(right) - 1e-9))
    if len(right) <= _EXACT:
        return float(_distribution(right)[needed:].sum())
    from scipy.special import ndtr

    sd = max(np.sqrt((right * (1 - right)).sum()), 1e-12)
    return float(ndtr((right.sum() - (needed - 0.5)) / sd))


def reached(result: Result, target: float, probability: float = 0.95, items: Integers | None = None) -> bool:
    """Whether the target is reached with that probability."""
    for name, value in (("target", target), ("probability", probability)):
        if not 0 < value < 1:
            raise SettingError(f"{name} must be between 0 and 1; got {value!r}")
    return chance_of(result, target, items) >= probability


def _right(result: Result, items: Integers | None) -> Floats:
    """Probability that the label of every item is right."""
    return np.asarray((result.posterior if items is None else result.posterior[items]).max(axis=1))


def _distribution(right: Floats) -> Floats:
    """P(number of right labels), [N + 1]."""
    chance = np.ones(1)
    for p in right:
        chance = np.convolve(chance, [1 - p, p])
    return chance


def _quantile(right: Floats, level: float) -> float:
    n_items = len(right)
    if n_items <= _EXACT:
        return float(np.searchsorted(_distribution(right).cumsum(), level) / n_items)
    from scipy.special import ndtri

    sd = np.sqrt((right * (1 - right)).sum())
    return float(np.clip((right.sum() + ndtri(level) * sd) / n_items, 0, 1))
