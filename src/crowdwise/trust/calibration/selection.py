"""Selective labelling: accept the labels that are sure enough, send the rest for review, at a stated rate of errors.

Without known classes the probabilities are believed: items are accepted from the surest down, as long as the mean of
1 - confidence among the accepted stays within the rate. With known classes nothing is believed:

    thresholds t_1 > t_2 > ... : the surest 2 %, 4 %, ... of all items
    p_j = P(Binomial(n_j, rate) <= e_j)      n_j known items above t_j, e_j of them wrong

and thresholds are lowered while p_j <= delta (equivalently: while the Clopper-Pearson upper bound of the error stays
within the rate). Stopping at the first failure keeps the probability that the accepted labels have more errors than the
rate below delta, though many thresholds are tried (fixed-sequence testing, Learn then Test). The sequence begins where so
many known items are above the threshold that it could pass without an error: log(delta) / log(1 - rate) of them, such as
59 for a rate of 5 % at delta = 5 %.

Notes
-----
The guarantee needs known items chosen at random among all, and a confidence that has not seen their classes; how good it
is only decides how much can be accepted.

References
----------
Angelopoulos et al. (2021), Learn then test: calibrating predictive algorithms to achieve risk control. Geifman and
El-Yaniv (2017), Selective classification for deep neural networks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from crowdwise.errors import InputError, check_share
from crowdwise.kernels.types import Array, Flags, Floats
from crowdwise.trust.calibration.intervals import share_interval, upper_bound

__all__ = ["Selection", "least_known", "select"]


_STEPS = 50


@dataclass(frozen=True, eq=False)
class Selection:
    """Which items to accept.

    Attributes
    ----------
    accept : [N]
        True for labels that need no review.
    threshold : float
        Smallest accepted confidence; infinity where nothing is accepted.
    rate : float
        The rate of errors that was asked for.
    expected : float
        Mean of 1 - confidence among the accepted: the rate that the probabilities promise.
    n_checked, n_wrong : int
        Accepted items of known class, and how many of them are wrong.
    bound : float or None
        With known classes: upper bound of the error of the accepted at level 1 - delta. It was made for one threshold; what
        holds although the threshold was searched for is that the error is within `rate` with probability 1 - delta.
    interval : (float, float) or None
        Exact 95 % interval of the error of the accepted, for one threshold likewise.
    """

    accept: Flags
    threshold: float
    rate: float
    expected: float
    n_checked: int
    n_wrong: int
    bound: float | None
    interval: tuple[float, float] | None

    def facts(self) -> dict[str, Any]:
        """All of it but the items, by name."""
        low, high = self.interval or (None, None)
        return {
            "rate": self.rate,
            "threshold": self.threshold if math.isfinite(self.threshold) else None,
            "n_accepted": int(self.accept.sum()),
            "n_review": int((~self.accept).sum()),
            "expected_error": self.expected,
            "n_checked": self.n_checked,
            "n_wrong": self.n_wrong,
            "error": self.n_wrong / self.n_checked if self.n_checked else None,
            "error_low": low,
            "error_high": high,
            "error_bound": self.bound,
        }


def least_known(rate: float, delta: float = 0.05) -> int:
    """Known items above a threshold, all right, that it takes to show an error within the rate.

    Examples
    --------
    >>> least_known(0.05)  # 0.95 ** 59 = 0.0485
    59
    """
    return math.ceil(math.log(delta) / math.log(1 - rate))


def select(confidence: ArrayLike, rate: float, wrong: ArrayLike | None = None, *, delta: float = 0.05) -> Selection:
    """Accept as many items as the rate of errors allows.

    Parameters
    ----------
    confidence : [N]
        Probability of the chosen class; with known classes any score that is higher for surer items.
    rate : float
        Share of wrong labels among the accepted.
    wrong : [N], optional
        1 where the label is known to be wrong, 0 where known to be right, -1 where unknown.
    delta : float
        With known classes: the probability of accepting more errors than the rate, by bad luck with the known items.

    Examples
    --------
    >>> select([0.99, 0.6, 0.95, 0.9], rate=0.06).accept.tolist()  # (0.01 + 0.05 + 0.1) / 3 = 0.053
    [True, False, True, True]
    """
    check_share("rate", rate)
    check_share("delta", delta)
    confidence = np.asarray(confidence, float)
    if confidence.ndim != 1 or not np.isfinite(confidence).all():
        raise InputError("confidence must be one finite number per item")
    if wrong is None:
        return _of(confidence, rate, _believed(confidence, rate), None, delta)
    wrong = np.asarray(wrong)
    if wrong.shape != confidence.shape or not np.isin(wrong, (-1, 0, 1)).all():
        raise InputError("wrong must be 1, 0 or -1 (unknown) for every item")
    return _of(confidence, rate, _tested(confidence, rate, wrong, delta), wrong, delta)


def _believed(confidence: Floats, rate: float) -> float:
    """Lowest threshold whose accepted items have an expected error within the rate."""
    value, count = np.unique(confidence, return_counts=True)
    value, count = value[::-1], count[::-1]
    mean = np.cumsum((1 - value) * count) / np.cumsum(count)
    # Expected errors rise as less sure items join, so the last that fits is the lowest threshold.
    fits = np.flatnonzero(mean <= rate + 1e-12)
    return float(value[fits[-1]]) if len(fits) else float("inf")


def _tested(confidence: Floats, rate: float, wrong: Array, delta: float) -> float:
    """Lower the threshold step by step while the known items show that the error stays within the rate."""
    if len(confidence) == 0:
        return float("inf")
    # Every threshold is the confidence of an item: the step's least sure one. Chosen without a look at any class.
    ranks = np.ceil(np.arange(1, _STEPS + 1) / _STEPS * len(confidence)).astype(int) - 1
    steps = np.unique(np.sort(confidence)[::-1][ranks])[::-1]
    accepted, least = float("inf"), least_known(rate, delta)
    for threshold in steps.tolist():
        above = wrong[(confidence >= threshold) & (wrong >= 0)]
        if len(above) < least:
            continue
        if upper_bound(above.sum(), len(above), 1 - delta) > rate:
            break
        accepted = threshold
    return accepted


def _of(confidence: Floats, rate: float, threshold: float, wrong: Array | None, delta: float) -> Selection:
    accept = confidence >= threshold
    expected = float((1 - confidence[accept]).mean()) if accept.any() else float("nan")
    seen = np.empty(0) if wrong is None else wrong[accept & (wrong >= 0)]
    n, errors = len(seen), int(seen.sum())
    if n == 0:
        return Selection(accept, threshold, rate, expected, 0, 0, None, None)
    low, high = share_interval(errors, n)
    return Selection(
        accept, threshold, rate, expected, n, errors, float(upper_bound(errors, n, 1 - delta)), (float(low), float(high))
    )
