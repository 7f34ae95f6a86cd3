"""CrowdBT: Bradley-Terry scores and the reliability of every annotator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from crowdwise.data.comparisons import Comparisons
from crowdwise.engines.loop import Progress
from crowdwise.estimator.estimator import setting
from crowdwise.methods.rank.annotators import Ballots, Looking, People, Reliability
from crowdwise.methods.rank.base import ScoreRanker, centred
from crowdwise.methods.rank.engine import ballots_of, fit_crowd, information
from crowdwise.methods.rank.games import Floats, Games
from crowdwise.methods.rank.result import Ranking
from crowdwise.methods.rank.solvers import Problem

__all__ = ["CrowdBT", "actions", "described"]


@dataclass(eq=False, repr=False, kw_only=True)
class CrowdBT(ScoreRanker):
    """Scores and annotators who err, by turning preferences round or by not looking.

    ``errors="flips"`` (Chen et al. 2013): P(a prefers i to j) = w_a s(s_i - s_j) + (1 - w_a) s(s_j - s_i), s the logistic
    function. w_a = 1/2 says nothing, below that an annotator is an adversary, whose votes count in reverse. The Beta prior of
    w_a also excludes the mirror image of all scores.

    ``errors="sides"`` is the noisy Bradley-Terry model of Bugakova et al. (2019): annotator a looks with probability g_a, and
    else says "first" with probability c_a. P(a prefers the first) = g_a s(s_first - s_second) + (1 - g_a) c_a. Which item
    stood first must be as the annotators saw it.

    A tie counts half a vote for each side.

    Examples
    --------
    >>> votes = Comparisons.from_arrays(["x", "x", "y"], ["y", "z", "z"], ["ann", "bob", "ann"], ["x", "x", "z"])
    >>> CrowdBT().fit(votes).annotators_frame()["action"].to_list()
    ['keep', 'keep']
    >>> CrowdBT(errors="sides").fit(votes).annotators_frame().columns
    ['annotator', 'n_votes', 'agreement', 'attention', 'first_share', 'flip_rate']
    """

    # Scale of scores and reliability make up for each other, so the scores need a firmer prior than where annotators are alike.
    prior: float = setting(1.0, "Weight of a virtual tie of every item with an item of score 0.", above=0)
    errors: str = setting(
        "flips",
        "Flips: a preference is turned round; sides: first or second is said without looking.",
        choices=("flips", "sides"),
    )
    right: float = setting(10.0, "First parameter of the Beta prior of reliability, or of looking.", low=1)
    wrong: float = setting(2.0, "Second parameter of that prior.", low=1)
    sides: float = setting(2.0, "Sides: both parameters of the Beta prior of saying first without looking.", low=1)
    em_rounds: int = setting(10, "Rounds of EM before joint L-BFGS.", low=0, whole=True)
    max_iter: int = setting(500, "Cap on iterations of L-BFGS.", low=1, whole=True)
    tol: float = setting(1e-3, "Stop when the gradient is below, in units of standard errors.", above=0)

    @property
    def name(self) -> str:  # type: ignore[override]
        """Name in the registry."""
        return "noisy-bt" if self.errors == "sides" else "crowd-bt"

    def _fit(self, votes: Comparisons, games: Games, progress: Progress | None) -> Ranking:
        ballots = ballots_of(votes, games)
        people = self._start(votes.n_annotators)
        found = fit_crowd(games, ballots, people, self.prior, self.em_rounds, self.tol, self.max_iter, progress)
        weight = information(games, ballots, found.people, found.score)
        diagonal = Problem(games, prior=self.prior).prior_curvature(found.score)
        score = centred(found.score, games.component)
        lead = found.score[ballots.first] - found.score[ballots.second]
        return Ranking(
            method=self.name,
            settings=self.get_params(),
            votes=votes,
            score=score,
            columns=described(found.people, ballots, lead),
            line=found.people.line(),
            trace={"objective": np.array(found.trace[1:])},
            n_iter=len(found.trace) - 1,
            converged=found.converged,
            **self._uncertain(games, score, weight, diagonal),
        )

    def _start(self, n_annotators: int) -> People:
        prior = [self.right, self.wrong]
        if self.errors == "flips":
            return Reliability(np.full((1, n_annotators), 0.9), np.array([prior]))
        start = np.repeat([[0.9], [0.5]], n_annotators, axis=1)
        return Looking(start, np.array([prior, [self.sides, self.sides]]))


def described(people: People, ballots: Ballots, lead: Floats) -> dict[str, Any]:
    """Columns about annotators, [A] each."""
    if isinstance(people, Reliability):
        reliability, error = people.probability[0], people.standard_error(ballots, lead)
        return {
            "reliability": reliability,
            "standard_error": error,
            "flip_rate": 1 - reliability,
            "action": actions(reliability, error),
        }
    attention, side = people.probability
    # Over both orders of a pair, half of the answers without looking are right.
    return {"attention": attention, "first_share": side, "flip_rate": (1 - attention) / 2}


def actions(reliability: Floats, error: Floats) -> Any:
    """What to do with the votes of annotators: keep where they are surely above 1/2, flip where surely below, else drop.

    Surely: by 1.96 standard errors. Between the two, nothing says which way round an annotator's votes are.
    """
    sure = np.abs(reliability - 0.5) > 1.96 * error
    return np.where(~sure, "drop", np.where(reliability > 0.5, "keep", "flip"))
