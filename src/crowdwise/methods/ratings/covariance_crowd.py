"""Covariance crowd: gains, noise and dependent pairs from how annotators vary together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import polars as pl
from scipy.special import ndtri

from crowdwise.data.encode import series_of
from crowdwise.data.ratings import Ratings
from crowdwise.engines.loop import Progress, Run
from crowdwise.estimator.estimator import setting
from crowdwise.kernels.types import Array, Floats
from crowdwise.methods.ratings.base import DIRECT, Found, RatingMethod
from crowdwise.methods.ratings.finish import answers_alone
from crowdwise.methods.ratings.pair_moments import Moments, Parts, decompose, dependence, moments
from crowdwise.methods.ratings.problem import Problem

__all__ = ["CovarianceCrowd"]

# Entries of the blocks of equal-sized items that are solved together.
_BLOCK = 2_000_000
_ROUNDS = 30
_PASSES = 4


@dataclass(eq=False, repr=False, kw_only=True)
class CovarianceCrowd(RatingMethod):
    """Values with an annotator's bias, gain and noise, from covariances between annotators.

    A value is m + b_a + g_a (z_n - m) plus noise. Two annotators vary together by g_a g_b Var(z): rank one, off the diagonal.
    The gains are fitted to the covariances of all pairs with enough shared items; a negative gain is an annotator who turns
    the scale round. Pairs that vary together more than the items explain are set aside as dependent, and counted as such:
    items weigh their answers by the inverse of the noise covariance. The mean gain of those with a positive one is one.

    References
    ----------
    Tenzer, Dror, Nadler, Bilal and Kluger (2022), Crowdsourcing regression: a spectral approach, AISTATS.

    Examples
    --------
    >>> truth = [1, 5, 8, 3, 6, 2, 9, 4]
    >>> answers = [answer for t in truth for answer in (t, t + 0.3, t - 0.2, 10 - t)]
    >>> values = Ratings.from_arrays([t for t in truth for _ in range(4)], ["x", "y", "z", "upside down"] * 8, answers)
    >>> CovarianceCrowd().fit(values).annotators_frame().sort("gain")["annotator"].to_list()[0]
    'upside down'
    """

    overlap: int = setting(3, "Items that two annotators must share for their covariance to count.", low=2, whole=True)
    gain_spread: float = setting(0.5, "Standard deviation of gains around one, before any answer is seen.", above=0)
    alarm: float = setting(0.05, "Expected number of pairs taken for dependent by chance.", above=0)

    name: ClassVar[str] = "covariance-crowd"

    def _fit(self, ratings: Ratings, known: Floats, progress: Progress | None) -> tuple[Found, Run[Any]]:
        problem = Problem.of(ratings, known, correct=True)
        alone = answers_alone(problem)
        if alone is not None:
            return alone, DIRECT
        done, pairs = [], []
        for d in range(problem.n_dimensions):
            found = moments(problem, d, self.overlap)
            n_pairs = max(len(found.first) / 2, 1)
            threshold = -float(ndtri(min(self.alarm / n_pairs, 1.0) / 2))
            parts, fitted = self._decompose(problem, d, found, threshold)
            items = fitted.estimate, fitted.variance, fitted.from_noise
            done.append((*items, fitted.bias, fitted.gain, parts.noise, fitted.share))
            pairs.append(_pairs(d, found, parts))
            if progress is not None:
                progress(d + 1, float("nan"), 0.0)
        estimate, variance, from_noise, bias, gain, noise, share = (np.stack(part, axis=1) for part in zip(*done, strict=True))
        known_rows = problem.is_known[:, None]
        signal = gain**2
        return {
            "estimate": np.where(known_rows, problem.known, estimate) * problem.spread + problem.centre,
            "scale": np.where(known_rows, 0.0, np.sqrt(variance)) * problem.spread,
            "freedom": np.full(estimate.shape, max(problem.n_annotators - 1.0, 1.0) * 5),
            "from_noise": np.maximum(from_noise, 0.0),
            "bias": bias * problem.spread + problem.offset,
            "noise": np.sqrt(noise) * problem.spread,
            "weight": share.mean(axis=1) / share.mean(axis=1).sum(),
            "reliability": (signal / (signal + noise)).mean(axis=1),
            "more": {"gain": gain},
            "pairs": {name: np.concatenate([part[name] for part in pairs]) for name in pairs[0]},
        }, DIRECT

    @property
    def pairs_(self) -> pl.DataFrame:
        """Dependent pairs, most surprising first: annotators, shared items, correlation of their noise, standard errors."""
        result = self._fitted()
        pairs, people = result.pairs, series_of(result.votes.annotators)
        return pl.DataFrame(
            {
                "annotator_a": people[pairs["first"]],
                "annotator_b": people[pairs["second"]],
                "dimension": pl.Series([result.votes.names[d] for d in pairs["dimension"]], dtype=pl.String),
                **{name: pairs[name] for name in ("n_shared", "noise_correlation", "standard_errors")},
            }
        )

    def _decompose(self, problem: Problem, d: int, found: Moments, threshold: float) -> tuple[Parts, _Fitted]:
        """Loadings without dependent pairs, items, and dependent pairs again, until these stay the same."""
        aside = np.zeros(len(found.first), bool)
        for _ in range(_PASSES):
            parts = decompose(found, problem.count, aside, gain_spread=self.gain_spread)
            # Twice: dependent annotators hide among the noise while they decide the items.
            for _ in range(2):
                fitted = _items(problem, d, found, parts)
                parts = dependence(problem, found, parts, fitted.off, fitted.gain, fitted.own_variance, threshold)
            now = parts.excess != 0
            if (now == aside).all():
                break
            aside = now
        return parts, _items(problem, d, found, parts)


@dataclass(frozen=True, eq=False)
class _Fitted:
    """One dimension: items, [N], annotators, [A], and residuals, [E]."""

    estimate: Floats
    variance: Floats
    own_variance: Floats
    bias: Floats
    gain: Floats
    share: Floats
    off: Floats
    from_noise: Floats


def _items(problem: Problem, d: int, found: Moments, parts: Parts) -> _Fitted:
    """Estimates of items and biases, given gains and noise."""
    count = problem.count
    # Those who turn the scale round have no say in its unit.
    upright = np.maximum(parts.loading, 0.0)
    size = max(float(np.average(upright, weights=count * (upright > 0) + 1e-300)), 1e-3)
    gain = parts.loading / size
    a, value, weight = problem.annotator, problem.value[:, d], problem.weight
    by_vote = _weights(problem, found, parts, gain)
    # Information of the answers on each item, and its prior.
    information = np.bincount(problem.item, by_vote * gain[a], minlength=problem.n_items)
    total = 1 / size**2 + information
    bias, middle = np.zeros(problem.n_annotators), float(np.average(value, weights=weight))
    away = np.zeros(problem.n_items)
    shrink = parts.noise / np.maximum(count, 1e-300)
    spread = 0.0
    for _ in range(_ROUNDS):
        pull = np.bincount(problem.item, by_vote * (value - middle - bias[a]), minlength=problem.n_items)
        away = np.where(problem.is_known, problem.known[:, d] - middle, pull / total)
        raw = np.bincount(a, weight * (value - middle - gain[a] * away[problem.item]), minlength=len(bias)) / np.maximum(
            count, 1e-9
        )
        spread = max(float(np.mean(raw**2) - shrink.mean()), 0.1 * float(np.mean(raw**2)), 1e-6)
        bias = raw * spread / (spread + shrink)
        if not problem.is_known.any():
            # Answers cannot tell the level of items from that of biases: the mean bias of answers is zero.
            level = float(np.average(bias, weights=count))
            bias, middle = bias - level, middle + level
        middle_of_items = float(away.mean())
        middle += middle_of_items if not problem.is_known.any() else 0.0
        away = away - (middle_of_items if not problem.is_known.any() else 0.0)
    lever = by_vote / total[problem.item]
    off = value - middle - bias[a] - gain[a] * away[problem.item]
    doubt = (shrink * spread / (spread + shrink))[a]
    doubt += away[problem.item] ** 2 * parts.loading_variance[a] / size**2
    doubt += off**2 * (2 / (count + 2))[a]
    variance = 1 / total + np.bincount(problem.item, lever**2 * doubt, minlength=problem.n_items)
    # The unit of the scale is the mean of these gains, and the true one may be another.
    unit = gain[gain > 0]
    variance = variance + away**2 * (float(unit.var()) + 1e-12) / max(len(unit), 1)
    if not problem.is_known.any():
        variance = variance + spread * float(((count / count.sum()) ** 2).sum())
    share = np.abs(np.bincount(a, lever, minlength=len(bias))) + 1e-300
    own = np.where(problem.is_known, 0.0, 1 / total)
    return _Fitted(middle + away, variance, own, bias, gain, share, off, information / total**2 / variance)


def _weights(problem: Problem, found: Moments, parts: Parts, gain: Floats) -> Floats:
    """Noise covariance inverse times gain, for every answer among those of its item, [E]."""
    a = problem.annotator
    plain = problem.weight * gain[a] / parts.noise[a]
    dependent = np.flatnonzero(parts.excess)
    if not len(dependent):
        return plain
    pairs = found.first[dependent] * problem.n_annotators + found.second[dependent]
    order = np.argsort(pairs)
    pairs, excess = pairs[order], parts.excess[dependent][order]
    pointer = np.searchsorted(problem.item, np.arange(problem.n_items + 1))
    sizes = np.diff(pointer)
    # Only items with a dependent pair among their answers need more than a division; those of one size are solved together.
    touched = np.isin(a, found.first[dependent])
    several = np.bincount(problem.item[touched], minlength=problem.n_items) > 1
    for size in np.unique(sizes[several]):
        chosen = np.flatnonzero((sizes == size) & several)
        block = max(_BLOCK // int(size) ** 2, 1)
        for start in range(0, len(chosen), block):
            votes = pointer[chosen[start : start + block]][:, None] + np.arange(size)
            who, each = a[votes], np.maximum(problem.weight[votes], 1e-9)
            key = who[:, :, None] * problem.n_annotators + who[:, None, :]
            position = np.minimum(np.searchsorted(pairs, key), len(pairs) - 1)
            matrix = np.where(pairs[position] == key, excess[position], 0.0)
            diagonal = np.arange(size)
            matrix[:, diagonal, diagonal] += parts.noise[who] / each
            # Several dependent annotators at once may exceed what noise allows: a matrix must stay positive.
            value, vector = np.linalg.eigh(matrix)
            value = np.maximum(value, 0.1 * np.min(parts.noise[who] / each, axis=1, keepdims=True))
            plain[votes] = np.einsum("nij,nj,nkj,nk->ni", vector, 1 / value, vector, gain[who])
    return plain


def _pairs(d: int, found: Moments, parts: Parts) -> dict[str, Array]:
    """Dependent pairs in one dimension, most surprising first."""
    chosen = np.flatnonzero((parts.excess != 0) & (found.first < found.second))
    chosen = chosen[np.argsort(-np.abs(parts.surprise[chosen]), kind="stable")]
    first, second = found.first[chosen], found.second[chosen]
    return {
        "first": first,
        "second": second,
        "dimension": np.full(len(chosen), d),
        "n_shared": found.shared[chosen].astype(np.int64),
        "noise_correlation": parts.excess[chosen] / np.sqrt(parts.noise[first] * parts.noise[second]),
        "standard_errors": parts.surprise[chosen],
    }
