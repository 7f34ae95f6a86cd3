"""How often labels are wrong, item by item: what the model expects, corrected by the checked labels.

Checked labels are known. Of the others, with p_i the error that the model expects in the stratum and k the predicted class,

    logit q_i = a + b logit p_i + u_k,   a ~ N(0, 1),   b ~ N(1, 0.5^2),   u_k ~ N(0, 0.5^2)

of highest posterior. Shares of all items and of each class are means of the same q, so that they agree with each other, and
they stay between 0 and 1 however few items were checked.

A checked label counts by the root of the number of unchecked ones for which it stands, 1 / pi_i - 1 with pi_i the chance that
it was among the draws. Counted in full, the few checks of rarely drawn items would decide nearly everything; not weighted at
all, the many sure ones would.

Sds and root were chosen among 17 variants on the 17 labelled sets of benchmark `audit`, which prints the errors of the
estimate and of the unbiased one of Des Raj (1956).
"""

from __future__ import annotations

import numpy as np

from crowdwise.kernels.types import Flags, Floats, Integers
from crowdwise.trust.audit.strata import Strata

__all__ = ["drawn_chances", "error_rates"]

_LEVEL_SD, _SLOPE_SD, _CLASS_SD = 1.0, 0.5, 0.5
_LEAST = 0.005


def error_rates(strata: Strata, weight: Floats, group: Integers, place: Integers, wrong: Flags) -> Floats:
    """Chance of every item that its label is wrong, [P]; 0 or 1 where it was checked.

    Parameters
    ----------
    weight : [H]
        With which the items were drawn.
    group : [P]
        Code of the predicted class of every item.
    place, wrong : [T]
        Positions of the drawn items, and whether their labels turned out wrong.
    """
    expected = np.clip(strata.error, _LEAST, 1 - _LEAST)[strata.stratum]
    if not len(place):
        return np.asarray(expected)
    odds = np.log(expected) - np.log1p(-expected)
    # Classes of which nothing was checked stay as they are.
    seen, own = np.unique(group[place], return_inverse=True)
    chance = drawn_chances(strata.size, weight, len(place))[strata.stratum[place]]
    count = np.sqrt(np.maximum(1 / chance - 1, 1e-12))
    # Unequal counts say less than their number: they sum to the number of equal ones that say as much.
    count *= count.sum() / (count @ count)
    level, slope, shift = _best_fit(odds[place], own, np.asarray(wrong, float), count, len(seen))
    by_class = np.zeros(int(group.max()) + 1)
    by_class[seen] = shift
    rate = 1 / (1 + np.exp(-(level + slope * odds + by_class[group])))
    rate[place] = wrong
    return np.asarray(rate)


def drawn_chances(size: Integers, weight: Floats, n: int) -> Floats:
    """Chance of an item of every stratum to be among the first n draws, [H].

    Draws are ordered by exponential waiting times of rate w; the n-th is taken to come when n are expected, which is
    exact for many items (Rosen 1972).
    """
    rate = weight / (size @ weight)
    low, high = -5.0, 40.0
    for _ in range(80):
        middle = (low + high) / 2
        early = size @ -np.expm1(-np.exp(middle) * rate) < n
        low, high = (middle, high) if early else (low, middle)
    return np.asarray(-np.expm1(-np.exp(high) * rate))


def _best_fit(odds: Floats, own: Integers, wrong: Floats, count: Floats, n_classes: int) -> tuple[float, float, Floats]:
    """Level, slope and shifts of classes of highest posterior, by Newton steps."""
    x = np.column_stack([np.ones(len(odds)), odds, np.eye(n_classes)[own]])
    precision = np.array([_LEVEL_SD, _SLOPE_SD, *[_CLASS_SD] * n_classes]) ** -2.0
    start = np.array([0.0, 1.0, *[0.0] * n_classes])
    found = start.copy()
    for _ in range(50):
        q = 1 / (1 + np.exp(-(x @ found)))
        slope = x.T @ (count * (wrong - q)) - precision * (found - start)
        step = np.linalg.solve((x.T * (count * q * (1 - q))) @ x + np.diag(precision), slope)
        # The objective is concave; a step of at most one keeps Newton from jumping over the top.
        found += step * min(1.0, 1.0 / max(float(np.abs(step).max()), 1e-12))
        if np.abs(step).max() < 1e-8:
            break
    return float(found[0]), float(found[1]), found[2:]
