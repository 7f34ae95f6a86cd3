"""How good a posterior is, measured against known classes; and how close confusion matrices are.

Every function takes `posterior` [N, K], rows of probabilities, and `truth` [N], class codes with
-1 where the class is unknown. Unknown items are left out; when none is known the answer is NaN,
because an undefined number must not look like a bad one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from crowdwise.errors import InputError, SettingError
from crowdwise.kernels.types import Floats
from crowdwise.trust.calibration_error import calibration_bins, ece, ece_by_chance, ece_debiased, without_chance
from crowdwise.trust.known_items import chosen_classes, known_items
from crowdwise.trust.ranking import class_ranks

__all__ = [
    "accuracy",
    "auc",
    "bootstrap_interval",
    "brier",
    "calibration_bins",
    "confusion_error",
    "ece",
    "ece_by_chance",
    "ece_debiased",
    "ece_interval",
    "interval_of",
    "log_loss",
    "macro_f1",
    "mean_absolute_error",
    "mean_true_probability",
    "quadratic_kappa",
    "score",
    "without_chance",
]

# Below this, one confident error would decide the mean log loss alone.
FLOOR = 1e-12


def accuracy(posterior: ArrayLike, truth: ArrayLike) -> float:
    """Return the share of items whose most probable class is the true one; m tied classes earn 1/m.

    Examples
    --------
    >>> accuracy([[0.8, 0.2], [0.5, 0.5], [0.9, 0.1]], [0, 1, -1])
    0.75
    """
    q_nk, z_n = known_items(posterior, truth)
    return _mean(chosen_classes(q_nk)[np.arange(len(z_n)), z_n])


def macro_f1(posterior: ArrayLike, truth: ArrayLike) -> float:
    """Return the mean F1 of the classes that are true or chosen somewhere; ties are split evenly.

    Examples
    --------
    >>> round(macro_f1([[0.8, 0.2], [0.3, 0.7], [0.9, 0.1]], [0, 1, 1]), 4)
    0.6667
    """
    q_nk, z_n = known_items(posterior, truth)
    chosen_nk = chosen_classes(q_nk)
    hits = np.bincount(z_n, chosen_nk[np.arange(len(z_n)), z_n], minlength=q_nk.shape[1])
    size = chosen_nk.sum(axis=0) + np.bincount(z_n, minlength=q_nk.shape[1])
    return _mean(2 * hits[size > 0] / size[size > 0])


def auc(posterior: ArrayLike, truth: ArrayLike) -> float:
    """Return the area under the ROC curve: how often an item of a class has more of its probability than one of another.

    Two classes: the share of pairs of items, one of each class, in which the item of the second class has the higher
    probability of that class; equal probabilities count half. More classes: the mean of that share over all ordered pairs
    of classes, each by the probability of the first on items of the two alone (Hand & Till 2001; scikit-learn's
    ``multi_class="ovo"``), so that shares of the classes do not matter. Classes that are true nowhere are left out, as in
    `macro_f1`; NaN where fewer than two remain.

    Examples
    --------
    >>> auc([[0.9, 0.1], [0.4, 0.6], [0.6, 0.4], [0.2, 0.8]], [0, 0, 1, 1])
    0.75
    """
    q_nk, z_n = known_items(posterior, truth)
    return class_ranks(q_nk, z_n).auc(np.ones(len(z_n)))


def log_loss(posterior: ArrayLike, truth: ArrayLike) -> float:
    """Return the mean of ``-log q(true class)``, with probabilities floored at 1e-12.

    Examples
    --------
    >>> round(log_loss([[0.5, 0.5], [1.0, 0.0]], [0, 0]), 4)
    0.3466
    """
    return _mean(-np.log(np.maximum(_true_probability(posterior, truth), FLOOR)))


def brier(posterior: ArrayLike, truth: ArrayLike) -> float:
    """Return the mean over items of ``sum_k (q_nk - 1[k true])^2``, between 0 and 2.

    Examples
    --------
    >>> brier([[0.5, 0.5], [1.0, 0.0]], [0, 0])
    0.25
    """
    q_nk, z_n = known_items(posterior, truth)
    # |q - e_z|^2 = |q|^2 - 2 q_z + 1, without building the one-hot matrix.
    return _mean(np.einsum("nk,nk->n", q_nk, q_nk) - 2 * q_nk[np.arange(len(z_n)), z_n] + 1)


def mean_true_probability(posterior: ArrayLike, truth: ArrayLike) -> float:
    """Return the mean probability given to the true class: the "test likelihood" of the SVGPCR paper.

    Examples
    --------
    >>> mean_true_probability([[0.5, 0.5], [1.0, 0.0]], [0, 0])
    0.75
    """
    return _mean(_true_probability(posterior, truth))


def mean_absolute_error(posterior: ArrayLike, truth: ArrayLike) -> float:
    """Return the mean number of steps between the most probable and the true class, for ordered classes; ties are split evenly.

    Examples
    --------
    >>> mean_absolute_error([[0.8, 0.1, 0.1], [0.4, 0.2, 0.4]], [2, 0])
    1.5
    """
    q_nk, z_n = known_items(posterior, truth)
    steps_nk = np.abs(np.arange(q_nk.shape[1]) - z_n[:, None])
    return _mean(np.einsum("nk,nk->n", chosen_classes(q_nk), steps_nk))


def quadratic_kappa(posterior: ArrayLike, truth: ArrayLike) -> float:
    """Return Cohen's kappa with quadratic weights between the most probable and the true class, for ordered classes.

    1 - mean (chosen - true)^2 / the same if both were paired at random: 1 is perfect, 0 is chance. NaN where both are
    constant and equal, because chance is then perfect too. Ties are split evenly.

    Examples
    --------
    >>> quadratic_kappa([[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 1]], [0, 1, 2, 1])
    0.8
    """
    q_nk, z_n = known_items(posterior, truth)
    if len(z_n) == 0:
        return float("nan")
    n_classes = q_nk.shape[1]
    chosen_nk = chosen_classes(q_nk)
    pairs_kk = np.stack([np.bincount(z_n, chosen_nk[:, k], minlength=n_classes) for k in range(n_classes)]) / len(z_n)
    squared_kk = np.subtract.outer(np.arange(n_classes), np.arange(n_classes)) ** 2
    by_chance = float((np.outer(pairs_kk.sum(axis=1), pairs_kk.sum(axis=0)) * squared_kk).sum())
    return 1 - float((pairs_kk * squared_kk).sum()) / by_chance if by_chance > 0 else float("nan")


def ece_interval(
    posterior: ArrayLike,
    truth: ArrayLike,
    n_bins: int = 15,
    *,
    level: float = 0.95,
    n_resamples: int = 1000,
    random_state: int | None = 0,
) -> tuple[float, float]:
    """Return the basic bootstrap interval of `ece`: ``2 ece - quantiles of the resamples``, from zero at least.

    The gaps of the bins are absolute values, so chance adds to them; it adds once more to those of a resample, and
    the percentile interval would lie above the estimate. The basic interval takes this surplus off.

    Examples
    --------
    >>> ece_interval([[1.0, 0.0]] * 4, [0, 0, 0, 0], n_resamples=20)
    (0.0, 0.0)
    """
    estimate = ece(posterior, truth, n_bins)
    low, high = bootstrap_interval(
        lambda q, z: ece(q, z, n_bins), posterior, truth, level=level, n_resamples=n_resamples, random_state=random_state
    )
    return max(2 * estimate - high, 0.0), max(2 * estimate - low, 0.0)


def confusion_error(estimate: ArrayLike, truth: ArrayLike, align: bool = True) -> float:
    """Return ``mean_a ||estimate_a - truth_a||_1 / K``: between 0 and 2, averaged over rows.

    Parameters
    ----------
    estimate, truth : [A, K, K]
        P(observed l | true k); rows sum to one.
    align : bool
        Rename the true classes of the estimate first, by the one permutation that fits best over
        all annotators together: the likelihood cannot distinguish such renamings. One per
        annotator would hide switched classes.

    Examples
    --------
    >>> swapped = [[[0.2, 0.8], [1.0, 0.0]]]
    >>> round(confusion_error(swapped, [[[1.0, 0.0], [0.0, 1.0]]]), 4)
    0.2
    >>> round(confusion_error(swapped, [[[1.0, 0.0], [0.0, 1.0]]], align=False), 4)
    1.8
    """
    estimate_akl, truth_akl = np.asarray(estimate, float), np.asarray(truth, float)
    if estimate_akl.ndim != 3 or estimate_akl.shape != truth_akl.shape or estimate_akl.shape[1] != estimate_akl.shape[2]:
        raise InputError(f"confusions must both have shape [A, K, K], got {estimate_akl.shape} and {truth_akl.shape}")
    n_annotators, n_classes, _ = truth_akl.shape
    if n_annotators == 0 or n_classes == 0:
        return float("nan")
    if align:
        from scipy.optimize import linear_sum_assignment

        # One row of costs at a time: all at once would take A K^3 numbers.
        cost_kk = np.stack([np.abs(estimate_akl - truth_akl[:, k : k + 1]).sum(axis=(0, 2)) for k in range(n_classes)])
        estimate_akl = estimate_akl[:, linear_sum_assignment(cost_kk)[1]]
    return float(np.abs(estimate_akl - truth_akl).sum() / (n_annotators * n_classes))


def score(posterior: ArrayLike, truth: ArrayLike) -> dict[str, float]:
    """Return the main measures by name, with `n_known`, the number of items they rest on.

    Examples
    --------
    >>> score([[0.5, 0.5], [1.0, 0.0], [0.2, 0.8]], [0, 0, -1])["n_known"]
    2
    """
    _, z_n = known_items(posterior, truth)
    measures = (accuracy, macro_f1, auc, log_loss, brier, ece, ece_debiased, mean_true_probability)
    return {"n_known": len(z_n)} | {measure.__name__: measure(posterior, truth) for measure in measures}


def bootstrap_interval(
    measure: Callable[[Any, Any], float],
    posterior: ArrayLike,
    truth: ArrayLike,
    *,
    level: float = 0.95,
    n_resamples: int = 1000,
    random_state: int | None = 0,
) -> tuple[float, float]:
    """Return the percentile interval of a measure under resampling of the items with known class.

    Resamples in which the measure is undefined, as `auc` is where a class of two is not drawn, are left out.

    Examples
    --------
    >>> bootstrap_interval(accuracy, [[0.9, 0.1]] * 4, [0, 0, 0, 0], n_resamples=20)
    (1.0, 1.0)
    """
    if not 0 < level < 1:
        raise SettingError(f"level must lie strictly between 0 and 1, got {level}")
    if n_resamples < 1:
        raise SettingError(f"n_resamples must be at least 1, got {n_resamples}")
    q_nk, z_n = known_items(posterior, truth)
    if len(z_n) == 0:
        return float("nan"), float("nan")
    rng = np.random.default_rng(random_state)
    draws = [rng.integers(len(z_n), size=len(z_n)) for _ in range(n_resamples)]
    return interval_of(np.array([measure(q_nk[draw], z_n[draw]) for draw in draws]), level)


def interval_of(drawn: Floats, level: float) -> tuple[float, float]:
    """Return the quantiles that hold the share `level` of the resampled values that are defined; NaN where none is.

    Examples
    --------
    >>> interval_of(np.array([1.0, 2.0, np.nan, 3.0]), 0.5)
    (1.5, 2.5)
    """
    defined = drawn[~np.isnan(drawn)]
    if len(defined) == 0:
        return float("nan"), float("nan")
    low, high = np.quantile(defined, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def _true_probability(posterior: ArrayLike, truth: ArrayLike) -> Floats:
    q_nk, z_n = known_items(posterior, truth)
    return q_nk[np.arange(len(z_n)), z_n]


def _mean(values: Floats) -> float:
    return float(values.mean()) if values.size else float("nan")
