"""The expected calibration error of the chosen class, what chance leaves of it, and the error without that."""

from __future__ import annotations

from math import copysign, erf, exp, pi, sqrt

import numpy as np
from numpy.typing import ArrayLike

from crowdwise.errors import SettingError
from crowdwise.kernels.types import Floats, Integers
from crowdwise.trust.known_items import chosen_classes, known_items

__all__ = ["calibration_bins", "ece", "ece_by_chance", "ece_debiased", "without_chance"]

# Numbers that are drawn for what chance leaves, and at a time (they fit a cache). One draw is right to a fifth, for 15 bins.
_DRAWN, _AT_ONCE = 4_000_000, 100_000


def ece(posterior: ArrayLike, truth: ArrayLike, n_bins: int = 15) -> float:
    """Return the expected calibration error of the top class, over bins of equal mass.

    Items are sorted by confidence and cut into `n_bins` runs of (nearly) equal length; the error
    is the mean over items of the gap |accuracy - confidence| of their bin.

    Notes
    -----
    Items of equal confidence share their mean accuracy before the cut: vote shares take few
    values, and a cut through a tie would otherwise make the answer depend on the order of rows.

    Chance alone leaves gaps: 0.12 of a perfect model with two classes that is hardly ever sure, on 160 items.
    `ece_debiased` takes that off.

    Examples
    --------
    >>> round(ece([[0.9, 0.1], [0.9, 0.1], [0.6, 0.4], [0.6, 0.4]], [0, 0, 0, 1], n_bins=2), 4)
    0.1
    """
    confidence, right, size = calibration_bins(posterior, truth, n_bins)
    return float((np.abs(right - confidence) * size).sum() / size.sum()) if len(size) else float("nan")


def ece_by_chance(posterior: ArrayLike, truth: ArrayLike, n_bins: int = 15, *, random_state: int | None = 0) -> float:
    """Return what chance alone leaves of `ece`: its mean over truths that are drawn from these very probabilities.

    Of `truth` it only counts which items are known.

    Examples
    --------
    >>> few, many = ([[0.7, 0.3]] * n for n in (10, 1000))
    >>> round(ece_by_chance(few, [0] * 10), 2), round(ece_by_chance(many, [0] * 1000), 2)
    (0.11, 0.01)
    """
    _check(n_bins)
    q_nk, z_n = known_items(posterior, truth)
    n = len(z_n)
    if n == 0:
        return float("nan")
    # A choice among m tied classes earns 1/m, and that m times as often.
    credit, confidence = chosen_classes(q_nk).max(axis=1), np.round(q_nk.max(axis=1), 9)
    order = np.lexsort((credit, confidence))
    credit, confidence = credit[order], confidence[order]
    start = _starts(n, n_bins)
    size, expected = np.diff(np.append(start, n)), _bin_means(confidence, confidence, start)
    rng, n_draws, summed = np.random.default_rng(random_state), int(np.clip(_DRAWN // n, 10, 1000)), 0.0
    at_once = max(1, _AT_ONCE // n)
    for first in range(0, n_draws, at_once):
        drawn = rng.random((min(at_once, n_draws - first), n)) < confidence / credit
        summed += float((np.abs(_bin_means(drawn * credit, confidence, start) - expected) @ size).sum())
    return summed / (n * n_draws)


def ece_debiased(posterior: ArrayLike, truth: ArrayLike, n_bins: int = 15) -> float:
    """Return `ece` without what chance leaves of it: zero on average for a perfect model, however few the items.

    It is `without_chance` of `ece` and `ece_by_chance`. Below zero the error is smaller than chance leaves on average: nothing
    speaks against the probabilities. One value on few items is as uncertain as the `ece` itself.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> q = rng.uniform(0.5, 1, 160)
    >>> posterior = np.stack([q, 1 - q], axis=1)
    >>> truths = [(rng.random(160) > q).astype(int) for _ in range(40)]
    >>> for measure in ece, ece_debiased:
    ...     print(f"{abs(np.mean([measure(posterior, truth) for truth in truths])):.1f}")
    0.1
    0.0
    """
    return without_chance(ece(posterior, truth, n_bins), ece_by_chance(posterior, truth, n_bins))


def without_chance(found: float, chance: float) -> float:
    """Return the gap between confidence and accuracy that, the same in all bins, leaves an `ece` of `found` on average.

    In a bin whose accuracy would lie by c off its confidence in endless data, the gap in the data is |c + s Z|, s its standard
    error and Z nearly normal; on average (a folded normal distribution)

        m(c, s) = s sqrt(2/pi) exp(-c^2 / (2 s^2)) + c erf(c / (s sqrt(2)))

    A perfect model, c = 0, leaves s sqrt(2/pi): that is `chance`, and gives s. The answer solves m(c, s) = found. To subtract
    `chance` itself would be wrong: errors do not add, and of a c beyond s hardly anything is due to chance. Where `found` is
    below `chance`, the answer is mirrored, minus that for as much above it: else chance would have only one side to fall on,
    and the mean for a perfect model would not be zero.

    Notes
    -----
    No estimate of |c| is free of bias at all c. m is convex in c and in s, so that where gaps or standard errors differ from
    bin to bin the answer is rather too large than too small; with many items it approaches the mean gap in any case. Of squared
    gaps there are unbiased estimates (Ferro & Fricker 2012; Kumar, Liang & Ma 2019), but their root is another measure, which
    is above the mean gap where gaps differ.

    Examples
    --------
    >>> without_chance(0.12, 0.12), round(without_chance(0.15, 0.12), 3), round(without_chance(0.09, 0.12), 3)
    (0.0, 0.109, -0.109)
    >>> round(without_chance(0.1, 0.01), 3)
    0.1
    """
    if not chance > 0 or not found >= 0:
        return found
    low, high = 0.0, chance + abs(found - chance)
    target, spread = high, chance * sqrt(pi / 2)
    # m rises with c, and is never below it.
    for _ in range(60):
        middle = (low + high) / 2
        mean = chance * exp(-((middle / spread) ** 2) / 2) + middle * erf(middle / (spread * sqrt(2)))
        low, high = (middle, high) if mean < target else (low, middle)
    return copysign(high, found - chance) if found != chance else 0.0


def calibration_bins(posterior: ArrayLike, truth: ArrayLike, n_bins: int = 15) -> tuple[Floats, Floats, Integers]:
    """Return mean confidence, accuracy and number of items of every bin of equal mass, three of [B].

    Bins go from the least to the most confident; there are fewer than `n_bins` where there are fewer known items.

    Examples
    --------
    >>> confidence, right, size = calibration_bins([[0.9, 0.1], [0.6, 0.4], [0.8, 0.2]], [0, 1, 0], n_bins=1)
    >>> round(float(confidence[0]), 4), round(float(right[0]), 4), int(size[0])
    (0.7667, 0.6667, 3)
    """
    _check(n_bins)
    q_nk, z_n = known_items(posterior, truth)
    if len(z_n) == 0:
        return np.empty(0), np.empty(0), np.empty(0, np.int64)
    right, confidence = chosen_classes(q_nk)[np.arange(len(z_n)), z_n], np.round(q_nk.max(axis=1), 9)
    order = np.argsort(confidence, kind="stable")
    right, confidence = right[order], confidence[order]
    start = _starts(len(z_n), n_bins)
    size = np.diff(np.append(start, len(z_n)))
    return _bin_means(confidence, confidence, start), _bin_means(right, confidence, start), size


def _check(n_bins: int) -> None:
    if n_bins < 1:
        raise SettingError(f"n_bins must be at least 1, got {n_bins}")


def _starts(n: int, n_bins: int) -> Integers:
    """Where the bins of n sorted items begin."""
    return np.unique(np.linspace(0, n, min(n_bins, n) + 1).astype(int)[:-1])


def _bin_means(values: Floats, confidence: Floats, start: Integers) -> Floats:
    """Means by bin of values, [..., n], of items sorted by confidence, [n]; those of equal confidence share theirs."""
    n = len(confidence)
    tie = np.flatnonzero(np.append(True, np.diff(confidence) > 0))
    if len(tie) < n:
        count = np.diff(np.append(tie, n))
        values = np.repeat(np.add.reduceat(values, tie, axis=-1) / count, count, axis=-1)
    means: Floats = np.add.reduceat(values, start, axis=-1) / np.diff(np.append(start, n))
    return means
