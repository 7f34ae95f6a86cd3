"""Heavy-tailed crowd: Student's t noise, so that a slip of an annotator moves nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from crowdwise.data.ratings import Ratings
from crowdwise.engines.loop import Progress, Run
from crowdwise.estimator.estimator import setting
from crowdwise.kernels.types import Floats
from crowdwise.methods.ratings.base import ABOUT_TOL, DIRECT, Found, RatingMethod
from crowdwise.methods.ratings.coverage import NoiseOf
from crowdwise.methods.ratings.finish import answers_alone
from crowdwise.methods.ratings.problem import Problem
from crowdwise.methods.ratings.variational import start
from crowdwise.methods.ratings.variational_fit import fit_variational

__all__ = ["StudentCrowd"]


@dataclass(eq=False, repr=False, kw_only=True)
class StudentCrowd(RatingMethod):
    """Values with an annotator's bias and heavy-tailed noise, by variational Bayes.

    As `gaussian-crowd-bayes`, with noise of Student's t distribution: an answer's precision is tau_a u, with a u of its own,
    Gamma(tail / 2, tail / 2). An answer far from all others gets a small u and hardly counts, on that item alone: its annotator
    keeps the weight of the other answers. A box is one answer, so its four sides share u. The degrees of freedom, `tail`, are
    learned.

    References
    ----------
    Lange, Little and Taylor (1989), Journal of the American Statistical Association 84; Raykar et al. (2010).
    """

    tail: float | None = setting(None, "Degrees of freedom of the noise; learned where not given.", low=1, optional=True)
    resolution: float | None = setting(
        None,
        "Answers are known up to this share of the crowd's noise variance; by default as far as their steps or ties show "
        "rounding.",
        low=0,
        optional=True,
    )
    shared: bool = setting(True, "One precision of an annotator for all dimensions, else one for each.")
    level: str = setting(
        "values", "Mean bias 0 over values or annotators, without known values.", choices=("values", "annotators")
    )
    tol: float = setting(1e-7, ABOUT_TOL, above=0)
    max_iter: int = setting(3000, "Rounds at most.", low=1, whole=True)

    name: ClassVar[str] = "student-crowd"
    noise_is: ClassVar[NoiseOf] = "of answers"

    def _fit(self, ratings: Ratings, known: Floats, progress: Progress | None) -> tuple[Found, Run[Any]]:
        problem = Problem.of(ratings, known, correct=True)
        alone = answers_alone(problem)
        if alone is not None:
            return alone, DIRECT
        first = start(problem, shared=self.shared, resolution=self.resolution, heavy=True, tail=self.tail)
        until = {"tol": self.tol, "max_iter": self.max_iter, "progress": progress}
        return fit_variational(problem, first, learn_tail=self.tail is None, shared=self.shared, level=self.level, **until)
