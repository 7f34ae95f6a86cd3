"""Bradley-Terry scores from counts of pairs: Newton's steps on a sparse Laplacian, and minorisation-maximisation (MM)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, log_expit

from crowdwise.engines.loop import Progress
from crowdwise.kernels.numerics import ratio
from crowdwise.kernels.ties import Terms, start_of, terms
from crowdwise.methods.rank.games import Floats, Games
from crowdwise.methods.rank.laplacian import Laplacian

__all__ = ["Problem", "Solution", "by_mm", "by_newton"]

# Relative residual of a Newton system: each step then gains about two digits, and the next one corrects the rest.
_LINEAR_TOL = 0.01


@dataclass(frozen=True, eq=False)
class Problem:
    """What is maximised: the log-likelihood of the games plus the log-prior of the scores.

    Attributes
    ----------
    games : Games
        Counts of pairs.
    ties : str
        How ties are modelled, see `crowdwise.kernels.ties`.
    prior : float
        Weight of a virtual tie of every item with an item of score 0; with `gaussian`, the precision of a normal prior.
    gaussian : bool
        Which of the two the prior is.
    """

    games: Games
    ties: str = "half"
    prior: float = 0.1
    gaussian: bool = False

    def has_tie_parameter(self) -> bool:
        """Whether ties have a parameter of their own: never where nobody tied."""
        return self.ties != "half" and bool(self.games.ties.any())

    def start(self) -> float | None:
        """A tie parameter to begin with: the share of ties, a little inwards."""
        if not self.has_tie_parameter():
            return None
        tied = self.games.ties.sum()
        total = tied + self.games.wins_low.sum() + self.games.wins_high.sum()
        return start_of(self.ties, float((tied + 1) / (total + 2)))

    def terms(self, score: Floats, tie: float | None) -> Terms:
        """Log-likelihood of every pair with its derivatives; last, a virtual game of equals, which keeps ties finite.

        Its weight is the prior's too: one tie and one decision each.
        """
        games, kind = self.games, "half" if tie is None else self.ties
        extra = 0.0 if tie is None else self.prior
        return terms(
            kind,
            0.0 if tie is None else tie,
            np.append(games.difference(score), 0.0),
            np.append(games.wins_low, extra / 2),
            np.append(games.wins_high, extra / 2),
            np.append(games.ties, extra),
        )

    def log_prior(self, score: Floats) -> float:
        """Log-density of the scores, up to a constant."""
        if self.gaussian:
            return float(-self.prior / 2 * np.sum(score**2))
        return float(self.prior / 2 * np.sum(log_expit(score) + log_expit(-score)))

    def prior_slope(self, score: Floats) -> Floats:
        """Its derivative, [N]."""
        return -self.prior * score if self.gaussian else self.prior / 2 * (expit(-score) - expit(score))

    def prior_curvature(self, score: Floats) -> Floats:
        """Its negative second derivative, [N]."""
        if self.gaussian:
            return np.full(len(score), self.prior)
        found: Floats = self.prior * expit(score) * expit(-score)
        return found

    def value(self, score: Floats, found: Terms) -> float:
        """The objective, of scores and the terms at them."""
        return float(found.log_lik.sum()) + self.log_prior(score)


@dataclass(frozen=True, eq=False)
class Solution:
    """Scores, [N], the tie parameter, the objective at each iteration, and whether the iterations settled."""

    score: Floats
    tie: float | None
    trace: list[float]
    converged: bool


def by_newton(
    problem: Problem,
    tol: float,
    max_iter: int,
    score: Floats | None = None,
    tie: float | None = None,
    progress: Progress | None = None,
) -> Solution:
    """Newton's method with step halving; it stops when no score would move by more than `tol`."""
    games = problem.games
    score = np.zeros(games.n_items) if score is None else score
    tie = problem.start() if tie is None else tie
    found = problem.terms(score, tie)
    trace = [problem.value(score, found)]
    for _ in range(max_iter):
        gradient = games.gather(found.slope[:-1]) + problem.prior_slope(score)
        matrix = Laplacian(games, found.curvature[:-1], problem.prior_curvature(score), pinned=not problem.prior)
        if tie is None:
            step, tie_step = matrix.solve(gradient, _LINEAR_TOL), 0.0
        else:
            # The tie parameter is one more row and column: block elimination.
            border = games.gather(found.cross[:-1])
            both = matrix.solve(np.column_stack([gradient, border]), _LINEAR_TOL)
            schur = found.tie_curvature.sum() - border @ both[:, 1]
            tie_step = float((found.tie_slope.sum() - border @ both[:, 0]) / max(schur, 1e-12))
            step = both[:, 0] - both[:, 1] * tie_step
        gain = float(gradient @ step) + float(found.tie_slope.sum()) * tie_step
        # The largest of 1, 1/2, 1/4, ... that raises the objective enough.
        size = 1.0
        while size > 1e-10:
            new, new_tie = score + size * step, None if tie is None else tie + size * tie_step
            if new_tie is None or problem.ties != "rao-kupper" or new_tie > 0:
                there = problem.terms(new, new_tie)
                value = problem.value(new, there)
                if value >= trace[-1] + 1e-4 * size * gain:
                    break
            size /= 2
        else:
            # Rounding hides what is left to gain, unless that is much.
            return Solution(score, tie, trace, gain <= 1e-9 * (1 + abs(trace[-1])))
        score, tie, found = new, new_tie, there
        trace.append(value)
        moved = max(float(np.abs(step).max(initial=0.0)), abs(tie_step))
        if progress is not None:
            progress(len(trace) - 1, value, moved)
        if moved <= tol:
            return Solution(score, tie, trace, True)
    return Solution(score, tie, trace, False)


def by_mm(problem: Problem, tol: float, max_iter: int, progress: Progress | None = None) -> Solution:
    """Hunter's (2004) MM: closed-form updates that never lower the objective; many, but each a pass over the pairs."""
    games = problem.games
    strength, tie = np.ones(games.n_items), problem.start()
    kind = "half" if tie is None else problem.ties
    factor = 0.0 if tie is None else float(np.exp(tie))
    start = np.zeros(games.n_items)
    trace = [problem.value(start, problem.terms(start, tie))]
    for _ in range(max_iter):
        new = _strengths(problem, kind, strength, factor)
        new = np.exp(_shifted(problem, np.log(new)))
        new_factor = factor if tie is None else _tie_factor(problem, new, factor)
        moved = np.abs(np.log(new / strength)).max(initial=0.0)
        moved = max(moved, 0.0 if tie is None else abs(np.log(new_factor / factor)))
        strength, factor = new, new_factor
        tie = None if tie is None else float(np.log(factor))
        trace.append(problem.value(np.log(strength), problem.terms(np.log(strength), tie)))
        if progress is not None:
            progress(len(trace) - 1, trace[-1], float(moved))
        if moved <= tol:
            return Solution(np.log(strength), tie, trace, True)
    return Solution(np.log(strength), tie, trace, False)


def _strengths(problem: Problem, kind: str, strength: Floats, factor: float) -> Floats:
    """One update of exp(score), [N]: wins over expected games per strength."""
    games, prior = problem.games, problem.prior
    low, high = strength[games.low], strength[games.high]
    half = games.ties if kind == "rao-kupper" else games.ties / 2
    won_low, won_high = games.wins_low + half, games.wins_high + half
    wins = games.spread(won_low, won_high) + prior / 2
    if kind == "rao-kupper":
        one, other = won_low / (low + factor * high), won_high / (factor * low + high)
        rate = games.spread(one + factor * other, factor * one + other)
    else:
        root = factor * np.sqrt(low * high)
        per_game = (won_low + won_high) / (low + high + root)
        # The root of the product is below the mean of its tangents, so each strength gets half of it.
        rate = games.spread(per_game * (1 + root / (2 * low)), per_game * (1 + root / (2 * high)))
    rate += prior / (strength + 1)
    updated: Floats = ratio(wins, rate, strength)
    return updated


def _tie_factor(problem: Problem, strength: Floats, factor: float) -> float:
    """One update of exp(tie parameter), the virtual game of equals among the games."""
    games, prior = problem.games, problem.prior
    low, high = strength[games.low], strength[games.high]
    tied = games.ties.sum() + prior
    if problem.ties == "davidson":
        root = np.sqrt(low * high)
        total = games.wins_low + games.wins_high + games.ties
        return float(tied / (np.sum(total * root / (low + high + factor * root)) + 2 * prior / (2 + factor)))
    won_low, won_high = games.wins_low + games.ties, games.wins_high + games.ties
    rate = np.sum(won_low * high / (low + factor * high) + won_high * low / (factor * low + high))
    rate += 2 * (1.5 * prior) / (1 + factor)
    return float(tied / rate + np.sqrt(1 + (tied / rate) ** 2))


def _shifted(problem: Problem, score: Floats) -> Floats:
    """Move each part as a whole, which only the prior feels and single updates are slow at.

    With the largest curvature that the prior can have, the step cannot lower the objective. Without a prior the mean becomes 0.
    """
    part = problem.games.component
    sizes = np.bincount(part)
    if problem.prior:
        shift = np.bincount(part, problem.prior_slope(score)) / (sizes * problem.prior / 4)
    else:
        shift = -np.bincount(part, score) / sizes
    found: Floats = score + shift[part]
    return found
