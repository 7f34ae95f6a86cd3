"""How much answers scatter on each item: the spread of an item's own answers, moderated by that of all items.

The squares of an item's residuals sum to lambda_n times chi-squared with d_n degrees of freedom, and lambda_n is scaled inverse
chi-squared with `freedom` and `typical`; both are those under which the sums are most likely. So an item on which people
disagree gets a wide interval, and with few answers per item all items lend each other strength.

References
----------
Smyth (2004), Statistical Applications in Genetics and Molecular Biology 3(1), article 3 (the moderated t).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln

from crowdwise.kernels.types import Floats
from crowdwise.methods.ratings.problem import Problem

__all__ = ["ItemSpread", "item_spread", "log_evidence"]

# Fewer degrees of freedom have no mean worth using; more cannot be told from infinitely many.
_FREEDOM = (0.5, 1000.0)


@dataclass(frozen=True, eq=False)
class ItemSpread:
    """By how much the noise variance on every item differs from the usual one.

    Attributes
    ----------
    factor, freedom : [N, D]
        Of the variance, and the degrees of freedom with which it is known; 1 and infinity where all items are alike.
    """

    factor: Floats
    freedom: Floats


def item_spread(problem: Problem, off: Floats, noise_variance: Floats) -> ItemSpread:
    """The spread of the answers on every item.

    Parameters
    ----------
    off, noise_variance : [E, D]
        How far every answer is from what was expected, and how much that is of the method; in the units of `problem`.
    """
    shape = problem.n_items, problem.n_dimensions
    factor, freedom = np.ones(shape), np.full(shape, np.inf)
    answers = np.bincount(problem.item, problem.weight, minlength=problem.n_items)
    # An estimate takes one degree of freedom of its answers; a known value takes none.
    degrees = np.maximum(answers - ~problem.is_known, 0.0)
    # Answers that are rounded may agree exactly, and yet are known no better than that.
    relative = problem.weight[:, None] * (off**2 + problem.rounding()) / noise_variance
    squares = problem.by_item(np.nan_to_num(relative))
    several = degrees > 0
    for k in range(problem.n_dimensions):
        found = _prior(squares[several, k], degrees[several])
        if found is not None:
            prior, typical = found
            usual = squares[several, k].sum() / degrees[several].sum()
            freedom[:, k] = prior + degrees
            factor[:, k] = (prior * typical + np.where(several, squares[:, k], 0.0)) / freedom[:, k] / usual
    return ItemSpread(factor, freedom)


def log_evidence(squares: Floats, degrees: Floats, freedom: float, typical: float) -> float:
    """Log-probability of sums of squares, [N], without what depends on neither parameter; `freedom` may be infinite."""
    if np.isinf(freedom):
        return float(-0.5 * (degrees * np.log(2 * typical) + squares / typical).sum())
    half = (freedom + degrees) / 2
    each = gammaln(half) - gammaln(freedom / 2) + freedom / 2 * np.log(freedom * typical)
    return float((each - half * np.log(freedom * typical + squares)).sum())


def _prior(squares: Floats, degrees: Floats) -> tuple[float, float] | None:
    """Degrees of freedom and typical value of lambda; None where items seem alike, by Schwarz's criterion."""
    from scipy.optimize import minimize

    total = float(squares.sum())
    if len(squares) < 2 or total <= 0:
        return None
    usual = total / float(degrees.sum())

    def loss(parameters: Floats) -> float:
        freedom, typical = np.exp(np.clip(parameters, *bounds.T))
        return -log_evidence(squares, degrees, float(freedom), float(typical))

    bounds = np.array([np.log(_FREEDOM), np.log([1e-9 * usual, 1e3 * usual])])
    found = minimize(loss, [np.log(8.0), np.log(usual)], method="Nelder-Mead", options={"xatol": 1e-6, "fatol": 1e-9})
    gain = -float(found.fun) - log_evidence(squares, degrees, np.inf, usual)
    if 2 * gain <= np.log(len(squares)):
        return None
    freedom, typical = np.exp(np.clip(found.x, *bounds.T))
    return float(freedom), float(typical)
