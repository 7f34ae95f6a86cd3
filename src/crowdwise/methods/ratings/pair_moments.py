"""Covariances of annotators over shared items, taken apart: rank one from the items, noise, and a few dependent pairs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from crowdwise.kernels.types import Floats
from crowdwise.methods.ratings.problem import Problem

__all__ = ["Moments", "Parts", "decompose", "dependence", "moments"]

Ints = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Moments:
    """Covariances of pairs of annotators who share items, both orders of a pair, and every annotator's variance.

    Attributes
    ----------
    first, second : [P]
    shared : [P]
        Items that both answered.
    covariance : [P]
    variance : [A]
    """

    first: Ints
    second: Ints
    shared: Floats
    covariance: Floats
    variance: Floats


@dataclass(frozen=True, eq=False)
class Parts:
    """Covariance = loading_a loading_b, plus noise on the diagonal, plus what dependent pairs share.

    Attributes
    ----------
    loading : [A]
        Gain times the standard deviation of the items.
    loading_variance : [A]
    noise : [A]
        Variance.
    excess : [P]
        Covariance of dependent pairs beyond the items'; 0 for all others.
    surprise : [P]
        How many standard errors the noise of a pair is from being independent.
    """

    loading: Floats
    loading_variance: Floats
    noise: Floats
    excess: Floats
    surprise: Floats


def moments(problem: Problem, dimension: int, least: int) -> Moments:
    """Count and multiply over shared items, by sparse products: memory grows with the pairs that met."""
    size = (problem.n_items, problem.n_annotators)
    given = problem.weight > 0
    item, annotator, value = problem.item[given], problem.annotator[given], problem.value[given, dimension]
    times = scipy.sparse.csr_matrix((np.ones(len(item)), (item, annotator)), shape=size)
    sums = scipy.sparse.csr_matrix((value, (item, annotator)), shape=size)
    times.sum_duplicates()
    sums.sum_duplicates()
    # An annotator who answered an item twice counts once, with the mean.
    answers = scipy.sparse.csr_matrix((sums.data / times.data, times.indices, times.indptr), shape=size)
    here = scipy.sparse.csr_matrix((np.ones(times.nnz), times.indices, times.indptr), shape=size)
    shared = (here.T @ here).tocoo()
    first, second, n = shared.row.astype(np.intp), shared.col.astype(np.intp), shared.data
    product, total = (answers.T @ answers).tocsr(), (answers.T @ here).tocsr()
    of_first, of_second = _at(total, first, second), _at(total, second, first)
    covariance = (_at(product, first, second) - of_first * of_second / n) / np.maximum(n - 1, 1)
    own = first == second
    variance = np.full(problem.n_annotators, np.nan)
    variance[first[own & (n > 1)]] = covariance[own & (n > 1)]
    usual = float(np.nanmean(variance)) if np.isfinite(variance).any() else 1.0
    # A few answers tell little of a variance: as if two more were of the crowd's.
    count = np.bincount(first[own], n[own], minlength=problem.n_annotators)
    variance = (np.maximum(count - 1, 0) * np.nan_to_num(variance) + 2 * usual) / (np.maximum(count - 1, 0) + 2)
    keep = ~own & (n >= least)
    return Moments(first[keep], second[keep], n[keep], covariance[keep], np.maximum(variance, 1e-9))


def decompose(found: Moments, count: Floats, aside: NDArray[np.bool_], *, gain_spread: float, rounds: int = 300) -> Parts:
    """Fit loadings to the covariances of all pairs but those set `aside`, [P], by weighted least squares."""
    a = len(found.variance)
    scale = found.variance[found.first] * found.variance[found.second]
    weight = np.where(aside, 0.0, found.shared / scale)
    # By absolute values: adversaries make the mean covariance vanish, and from zero the loadings would never rise.
    middle = (
        float(np.average(np.abs(found.covariance), weights=weight)) if weight.sum() > 0 else 0.5 * float(found.variance.mean())
    )
    least = 0.5 * np.sqrt(max(middle, 1e-9))
    loading: Floats = np.full(a, 2 * least)
    precision: Floats = np.ones(a)
    for _ in range(rounds):
        usual = max(float(np.average(np.abs(loading), weights=count)), least)
        prior = 1 / (gain_spread * usual) ** 2
        other = loading[found.second]
        precision = prior + np.bincount(found.first, weight * other**2, minlength=a)
        new = (prior * usual + np.bincount(found.first, weight * found.covariance * other, minlength=a)) / precision
        moved = float(np.abs(new - loading).max())
        # Half a step: whole ones may swing between two halves of the crowd.
        loading = np.asarray((loading + new) / 2, np.float64)
        if moved < 1e-9:
            break
    if (count * loading).sum() < 0:
        loading = -loading
    left = np.maximum(found.variance - loading**2, 0.02 * found.variance)
    noise = (count * left + 2 * float(np.average(left, weights=count))) / (count + 2)
    nothing = np.zeros(len(found.first))
    return Parts(loading, 1 / precision, noise, nothing, nothing)


def dependence(
    problem: Problem, found: Moments, parts: Parts, off: Floats, gain: Floats, variance: Floats, threshold: float
) -> Parts:
    """Noise of annotators, and pairs whose noise goes together, from what is left of the answers.

    Residuals of independent annotators vary together by minus their gains times the variance of the item, which is added back.

    Parameters
    ----------
    off : [E]
        Residuals.
    gain : [A]
    variance : [N]
        Of the items, 0 where known.
    threshold : float
        Standard errors from which a pair counts as dependent.
    """
    count = problem.count
    squares = np.bincount(
        problem.annotator, problem.weight * (off**2 + (gain**2)[problem.annotator] * variance[problem.item]), len(count)
    )
    usual = float(squares.sum() / max(count.sum(), 1e-300))
    noise = np.maximum((squares + 2 * usual) / (count + 2), 1e-9)
    size = (problem.n_items, problem.n_annotators)
    left = scipy.sparse.csr_matrix((off, (problem.item, problem.annotator)), shape=size)
    here = scipy.sparse.csr_matrix((np.sqrt(variance)[problem.item], (problem.item, problem.annotator)), shape=size)
    together = _at((left.T @ left).tocsr(), found.first, found.second) / found.shared
    hidden = _at((here.T @ here).tocsr(), found.first, found.second) / found.shared
    excess = together + gain[found.first] * gain[found.second] * hidden
    limit = np.sqrt(noise[found.first] * noise[found.second])
    # Errors of two gains leave a common trace in residuals as well.
    error = limit**2 / found.shared + parts.loading_variance[found.first] * parts.loading_variance[found.second]
    surprise = excess / np.sqrt(error)
    return Parts(
        parts.loading,
        parts.loading_variance,
        noise,
        np.where(np.abs(surprise) > threshold, np.clip(excess, -0.9 * limit, 0.9 * limit), 0.0),
        surprise,
    )


def _at(matrix: scipy.sparse.csr_matrix, rows: Ints, columns: Ints) -> Floats:
    if not len(rows):
        return np.zeros(0)
    return np.asarray(matrix[rows, columns], np.float64).ravel()
