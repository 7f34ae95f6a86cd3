"""How far estimates may be off: by noise, by biases and their common level, and by precisions that are estimates too."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse

from crowdwise.kernels.types import Flags, Floats
from crowdwise.methods.ratings.gaussian import Items
from crowdwise.methods.ratings.problem import Problem

__all__ = ["Uncertainty", "uncertainty"]


# Up to so many annotators, the covariance of all biases is computed; beyond, their common level and their own variances.
_DENSE = 1200
# Entries of a block of items x annotators.
_BLOCK = 4_000_000
_MOST_FREEDOM = 1e6


@dataclass(frozen=True, eq=False)
class Uncertainty:
    """Student's t around every estimate.

    Attributes
    ----------
    variance : [N, D]
        Square of the scale.
    freedom : [N, D]
        Degrees of freedom.
    bias_variance : [A, D]
        Of the annotators' biases.
    """

    variance: Floats
    freedom: Floats
    bias_variance: Floats


def uncertainty(
    problem: Problem, items: Items, precision: Floats, doubt: Floats, bias: Floats, bias_precision: Floats
) -> Uncertainty:
    """Posterior variance of every item with biases, level and prior mean summed out, and doubts about precisions added.

    Given the precisions, items and biases are jointly Gaussian, and the variance of an item is exact. An error of the log
    precision of annotator a moves z_n by p (y - b - z) / P; its variance, `doubt`, is added to first order. The variance 1 / P
    is an estimate itself, with relative variance sum (p / P)^2 doubt: that gives the degrees of freedom (Satterthwaite).

    Parameters
    ----------
    precision : [E, D]
        Expected precision p of every answer.
    doubt : [E, D]
        Variance of its logarithm.
    bias, bias_precision : [A, D]
        Biases, and the precision of their prior.
    """
    share = precision * np.where(problem.is_known, 0.0, 1.0)[problem.item, None]
    total = 1 / items.prior_variance + problem.by_item(precision)
    off = problem.value - items.mean[problem.item] - bias[problem.annotator]
    relative = share / total[problem.item]
    spread = problem.by_item((relative * off) ** 2 * doubt)
    wobble = problem.by_item(relative**2 * doubt)
    from_biases, bias_variance, level = _from_biases(problem, items, precision, bias_precision)
    unknown = ~problem.is_known[:, None]
    variance = np.where(unknown, 1 / total + spread + from_biases, 0.0)
    # The parts that rest on estimated variances: noise, by its wobble, and the level, by the number of biases that showed it.
    biases = max(problem.n_annotators - 1, 1)
    doubtful = (1 / total) ** 2 * wobble / 2 + level**2 / biases
    freedom = np.minimum(variance**2 / np.maximum(doubtful, 1e-300), _MOST_FREEDOM)
    return Uncertainty(variance, np.where(unknown, np.maximum(freedom, 1.0), _MOST_FREEDOM), bias_variance)


def _from_biases(problem: Problem, items: Items, precision: Floats, bias_precision: Floats) -> tuple[Floats, Floats, Floats]:
    """Variance of items because biases and the prior mean are uncertain, [N, D]; of the biases, [A, D]; of the level, [D]."""
    n, a, d = problem.n_items, problem.n_annotators, problem.n_dimensions
    from_biases, of_biases, level = np.zeros((n, d)), np.zeros((a, d)), np.zeros(d)
    free = ~problem.is_known
    for k in range(d):
        p, s = precision[:, k], np.broadcast_to(items.prior_variance, (n, d))[:, k]
        total = 1 / s + np.bincount(problem.item, p, minlength=n)
        table = scipy.sparse.csr_matrix((p, (problem.item, problem.annotator)), shape=(n, a))
        free_table = scipy.sparse.diags(free / np.sqrt(total)) @ table
        own = bias_precision[:, k] + np.bincount(problem.annotator, p, minlength=a)
        # Nothing that shows items shows the level as well: it is known as far as the biases' prior and known values tell.
        held = np.bincount(problem.item, p, minlength=n)[~free].sum() + (~free / s).sum()
        level[k] = 1 / (bias_precision[:, k].sum() + held)
        if a <= _DENSE:
            covariance = _covariance(free_table, own, total, free, s)
            rows = scipy.sparse.hstack([table, scipy.sparse.csr_matrix(-1 / s[:, None])]).tocsr()
            for start in range(0, n, max(_BLOCK // (a + 1), 1)):
                part = rows[start : start + max(_BLOCK // (a + 1), 1)]
                quadratic = np.asarray(part.multiply(part @ covariance).sum(axis=1)).ravel()
                from_biases[start : start + len(quadratic), k] = quadratic
            from_biases[:, k] /= total**2
            of_biases[:, k] = np.diag(covariance)[:a]
        else:
            diagonal = own - np.asarray(free_table.multiply(free_table).sum(axis=0)).ravel()
            from_biases[:, k] = np.asarray(table.multiply(table) @ (1 / diagonal)).ravel() / total**2 + level[k]
            of_biases[:, k] = 1 / diagonal + level[k]
    return from_biases, of_biases, level


def _covariance(free_table: scipy.sparse.csr_matrix, own: Floats, total: Floats, free: Flags, s: Floats) -> Floats:
    """Joint covariance of the biases and of the prior mean, with items eliminated, [A + 1, A + 1]."""
    a = len(own)
    inverse = np.zeros((a + 1, a + 1))
    inverse[:a, :a] = np.diag(own) - (free_table.T @ free_table).toarray()
    inverse[:a, a] = inverse[a, :a] = free_table.T @ (free / np.sqrt(total) / s)
    # A flat prior of the mean leaves nothing singular, because the biases have one.
    inverse[a, a] = (1 / s).sum() - (free / total / s**2).sum()
    return np.asarray(np.linalg.inv(inverse), np.float64)
