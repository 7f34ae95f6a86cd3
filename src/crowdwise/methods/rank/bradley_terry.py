"""Bradley-Terry: one score per item, all annotators alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from crowdwise.data.comparisons import Comparisons
from crowdwise.engines.loop import Progress
from crowdwise.errors import SettingError
from crowdwise.estimator.estimator import setting
from crowdwise.kernels.ties import TIES
from crowdwise.methods.rank.base import ScoreRanker, centred
from crowdwise.methods.rank.games import Games
from crowdwise.methods.rank.result import Ranking
from crowdwise.methods.rank.solvers import Problem, by_mm, by_newton

__all__ = ["BradleyTerry"]


@dataclass(eq=False, repr=False, kw_only=True)
class BradleyTerry(ScoreRanker):
    """Scores of items from pairwise comparisons, by maximum likelihood with a weak prior.

    P(i beats j) = 1 / (1 + exp(s_j - s_i)). A tie counts half a win for each, or has a probability of its own:
    Davidson's (1970) or Rao and Kupper's (1967). The objective is concave; both solvers find its one optimum.

    Examples
    --------
    >>> votes = Comparisons.from_arrays(["x", "x", "y"], ["y", "z", "z"], ["ann", "bob", "ann"], ["x", "x", "z"])
    >>> BradleyTerry().fit(votes).result_.by_rank()["item"].to_list()
    ['x', 'z', 'y']
    """

    name: ClassVar[str] = "bradley-terry"

    solver: str = setting("newton", "Newton, or mm: Hunter's updates, many but plain.", choices=("newton", "mm"))
    ties: str = setting("half", "Half a win for each, or a probability of their own.", choices=TIES)
    prior_shape: str = setting(
        "tie", "Tie: the virtual tie; gaussian: normal scores with precision `prior`.", choices=("tie", "gaussian")
    )
    max_iter: int | None = setting(
        None, "Cap on iterations; None: 100 of newton, 20,000 of mm.", low=1, whole=True, optional=True
    )

    def _check(self) -> None:
        super()._check()
        if self.solver == "mm" and self.prior_shape == "gaussian":
            raise SettingError("BradleyTerry: the updates of mm need prior_shape='tie'; use solver='newton'")

    def _fit(self, votes: Comparisons, games: Games, progress: Progress | None) -> Ranking:
        problem = Problem(games, self.ties, self.prior, self.prior_shape == "gaussian")
        if self.solver == "newton":
            found = by_newton(problem, self.tol, self.max_iter or 100, progress=progress)
        else:
            # Steps of MM shrink slowly, so the distance to the optimum is many times the last of them.
            found = by_mm(problem, self.tol / 100, self.max_iter or 20_000, progress)
        curvature = problem.terms(found.score, found.tie).curvature[:-1]
        score = centred(found.score, games.component)
        return Ranking(
            method=self.name,
            settings=self.get_params(),
            votes=votes,
            score=score,
            ties=self.ties,
            tie=found.tie,
            trace={"objective": np.array(found.trace[1:])},
            n_iter=len(found.trace) - 1,
            converged=found.converged,
            **self._uncertain(games, score, curvature, problem.prior_curvature(found.score)),
        )
