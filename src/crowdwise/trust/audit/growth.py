"""How fast the wealth of bets is expected to grow, and so how many checks a certificate takes."""

from __future__ import annotations

import numpy as np

from crowdwise.kernels.types import Floats
from crowdwise.trust.audit.bets import Bets
from crowdwise.trust.audit.certificate import levels_of_sets, passed_sets, start_sets
from crowdwise.trust.audit.plan import Plan

__all__ = ["fewest_draws", "growth_by_bettor", "more_draws"]


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


def fewest_draws(plan: Plan, error: float, alpha: float) -> int:
    """Draws of a plan after which something is certified if no label is wrong: with fewer, nothing can be."""
    strata = plan.strata
    bets, level = start_sets(strata, plan.weight, error), levels_of_sets(strata, alpha)
    best, done = np.full(len(level), -np.inf), 0
    while done < strata.n_items:
        # A hundred at a time: mostly the first few hundred of many thousand items decide.
        stratum = strata.stratum[plan.order[done : done + 100]]
        bets, path = bets.after(stratum, np.zeros(len(stratum), bool))
        path = np.maximum.accumulate(np.maximum(path, best))
        for draws, wealth in enumerate(path):
            if passed_sets(wealth[None], level).any():
                return done + draws
        best, done = path[-1], done + len(stratum)
    return strata.n_items
