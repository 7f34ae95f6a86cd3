"""How fast the wealth of bets is expected to grow, and so how many more checks a certificate takes."""

from __future__ import annotations

import numpy as np

from crowdwise.kernels.types import Floats
from crowdwise.trust.audit.bets import Bets

__all__ = ["growth_by_bettor", "more_draws"]


def growth_by_bettor(bets: Bets, error: Floats) -> Floats:
    """Expected log-payoff of the next draw from each set if strata have these errors, [S, J]."""
    count = bets.member * bets.remaining
    chance = count * bets.weight / np.maximum(count @ bets.weight, 1e-300)[:, None]
    log_right, log_wrong = bets.payoffs()
    return np.asarray((chance * ((1 - error) * log_right + error * log_wrong)).sum(axis=2))


def more_draws(bets: Bets, error: Floats, level: Floats) -> Floats:
    """Draws, over all strata, until each set is expected to pass at its level, [J]; infinite where it never will.

    Parameters
    ----------
    error : [H]
        Error rates that are thought true now.
    level : [J]
        A set passes with wealth 1 / level.
    """
    growth = growth_by_bettor(bets, error)
    reached = bets.weight * bets.remaining
    share = bets.member @ reached / max(float(reached.sum()), 1e-300)
    with np.errstate(divide="ignore", invalid="ignore"):
        inside = (-np.log(level) - bets.log_wealth) / np.where(growth > 1e-9, growth, 0)
        draws = np.where(growth > 1e-9, np.maximum(inside, 0), np.inf).min(axis=0) / share
    left = bets.member @ bets.remaining
    # No more draws than items: checking all of a set decides it.
    return np.asarray(np.where((draws * share > left) | (bets.wrong_left <= 0), np.inf, draws))
