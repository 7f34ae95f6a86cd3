"""Scores and annotators together: EM, whose bound never falls, then joint L-BFGS where EM would creep."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import expit

from crowdwise.data.comparisons import Comparisons
from crowdwise.engines.loop import Progress
from crowdwise.methods.rank.annotators import Ballots, Expectation, People
from crowdwise.methods.rank.games import Floats, Games, sums
from crowdwise.methods.rank.solvers import Problem, by_newton

__all__ = ["CrowdFit", "ballots_of", "fit_crowd", "information"]


@dataclass(frozen=True, eq=False)
class CrowdFit:
    """Scores, [N], annotators, the objective at each iteration, and whether the iterations settled."""

    score: Floats
    people: People
    trace: list[float]
    converged: bool


def ballots_of(votes: Comparisons, games: Games) -> Ballots:
    """Decisive votes; a tie becomes half a vote for each side, as a vote of a degree does, at the end of the list."""
    share = votes.degrees
    divided = np.flatnonzero(share < 1)
    rows = np.concatenate([np.arange(votes.n_votes), divided])
    first = np.concatenate([votes.outcome >= 0, votes.outcome[divided] < 0])
    weight = votes.weights[rows] * np.concatenate([share, 1 - share[divided]])
    return Ballots(
        votes.first[rows].astype(np.int64),
        votes.second[rows].astype(np.int64),
        votes.annotator[rows].astype(np.int64),
        games.pair[rows],
        first,
        weight,
        votes.n_annotators,
    )


def fit_crowd(
    games: Games,
    ballots: Ballots,
    people: People,
    prior: float,
    em_rounds: int,
    tol: float,
    max_iter: int,
    progress: Progress | None = None,
) -> CrowdFit:
    """Maximise the log-likelihood of the votes and the log-priors of scores and annotators.

    The start is the plain Bradley-Terry fit and the given annotators. A round of EM is: the posterior of every vote, the modes
    of the annotators, a Newton step on the soft wins. L-BFGS continues over scores and log-odds, both in units of their
    information.
    """
    problem = Problem(games, prior=prior)
    score = by_newton(problem, 1e-3, 20).score
    trace: list[float] = []
    for number in range(em_rounds):
        expected = people.expect(ballots, _lead(ballots, score))
        trace.append(_objective(problem, score, ballots, people, expected))
        people = people.update(expected)
        before, soft = score, _soft(games, ballots, expected)
        score = by_newton(replace(problem, games=soft), tol, 1, score).score
        if progress is not None:
            progress(number + 1, trace[-1], float(np.abs(score - before).max(initial=0.0)))
    return _joint(problem, ballots, score, people, trace, tol, max_iter, progress)


def information(games: Games, ballots: Ballots, people: People, score: Floats) -> Floats:
    """Expected information of the votes on each pair about its difference, given the annotators, [M]."""
    chance, slope = people.response(ballots, _lead(ballots, score))
    variance = chance * (1 - chance)
    per_vote = np.divide(slope**2, variance, out=np.zeros_like(slope), where=variance > 0)
    return sums(ballots.pair, ballots.weight * per_vote, games.n_pairs)


def _lead(ballots: Ballots, score: Floats) -> Floats:
    found: Floats = score[ballots.first] - score[ballots.second]
    return found


def _objective(problem: Problem, score: Floats, ballots: Ballots, people: People, expected: Expectation) -> float:
    return float(ballots.weight @ expected.log_lik) + problem.log_prior(score) + people.log_prior()


def _soft(games: Games, ballots: Ballots, expected: Expectation) -> Games:
    """The games with expected wins instead of those that were said."""
    turned = ballots.first > ballots.second
    for_low = np.where(turned, expected.for_second, expected.for_first)
    for_high = np.where(turned, expected.for_first, expected.for_second)
    low, high = (sums(ballots.pair, ballots.weight * share, games.n_pairs) for share in (for_low, for_high))
    return games.with_wins(low, high)


def _joint(
    problem: Problem,
    ballots: Ballots,
    score: Floats,
    people: People,
    trace: list[float],
    tol: float,
    max_iter: int,
    progress: Progress | None,
) -> CrowdFit:
    from scipy.optimize import minimize

    games, n_items = problem.games, problem.games.n_items
    weight = information(games, ballots, people, score)
    own = games.spread(weight, weight) + problem.prior_curvature(score)
    events = people.expect(ballots, _lead(ballots, score))
    counts = events.happened + events.failed + people.prior.sum(1, keepdims=True) - 2
    people_own = np.maximum(counts, 1.0) * np.maximum(people.probability * (1 - people.probability), 0.01)
    scale = np.sqrt(np.concatenate([np.maximum(own, 1e-3), people_own.ravel()]))

    def loss(z: Floats) -> tuple[float, Floats]:
        here, crowd = z[:n_items] / scale[:n_items], people.with_logits(z[n_items:] / scale[n_items:])
        lead = _lead(ballots, here)
        expected = crowd.expect(ballots, lead)
        slope = ballots.weight * (expected.for_first * expit(-lead) - expected.for_second * expit(lead))
        of_score = sums(ballots.first, slope, n_items) - sums(ballots.second, slope, n_items)
        gradient = np.concatenate([of_score + problem.prior_slope(here), crowd.gradient(expected).ravel()])
        return -_objective(problem, here, ballots, crowd, expected), -gradient / scale

    def keep(intermediate_result: Any) -> None:
        trace.append(-float(intermediate_result.fun))
        if progress is not None:
            # The change of scores is not known here; that of the objective is.
            progress(len(trace), trace[-1], abs(trace[-1] - trace[-2]) if len(trace) > 1 else float("nan"))

    start = np.concatenate([score, people.logits().ravel()]) * scale
    # In units of the standard deviations a gradient of `tol` leaves scores about `tol` standard errors from the optimum.
    options = {"maxiter": max_iter, "maxfun": 2 * max_iter + 20, "gtol": tol, "ftol": 1e-13, "maxcor": 20}
    found = minimize(loss, start, jac=True, method="L-BFGS-B", callback=keep, options=options)
    z = found.x / scale
    trace.append(-float(found.fun))
    return CrowdFit(z[:n_items], people.with_logits(z[n_items:]), trace, found.status != 1)
