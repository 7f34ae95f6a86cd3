"""Heavy-tailed crowd: Student's t noise, so that a slip of an annotator moves nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from crowdwise.estimator.settings import setting
from crowdwise.methods.ratings.gaussian_crowd_bayes import GaussianCrowdBayes
from crowdwise.methods.ratings.problem import Problem
from crowdwise.methods.ratings.variational import Crowd, start, step

__all__ = ["StudentCrowd"]

Floats = NDArray[np.float64]


@dataclass(repr=False)
class StudentCrowd(GaussianCrowdBayes):
    """Values with an annotator's bias and heavy-tailed noise, by variational Bayes.

    As `gaussian-crowd-bayes`, with noise of Student's t distribution: an answer's precision is tau_a u, with a u of its own,
    Gamma(tail / 2, tail / 2). An answer far from all others gets a small u and hardly counts, on that item alone: its annotator
    keeps the weight of the other answers. A box is one answer, so its four sides share u. The degrees of freedom, `tail`, are
    learned.

    References
    ----------
    Lange, Little and Taylor (1989), Journal of the American Statistical Association 84; Raykar et al. (2010).
    """

    tail: float | None = setting(None, "degrees of freedom of the noise; learned where not given", low=1, optional=True)

    max_iter: int = setting(3000, "rounds at most", low=1, whole=True)

    name: ClassVar[str] = "student-crowd"

    def _begin(self, problem: Problem) -> Crowd:
        return start(problem, shared=self.shared, resolution=self.resolution, heavy=True, tail=self.tail)

    def _advance(self, problem: Problem, crowd: Crowd) -> Crowd:
        return step(problem, crowd, learn_tail=self.tail is None)

    def _doubt_of_answers(self, crowd: Crowd, problem: Problem) -> float:
        return 2 / (crowd.tail + problem.n_dimensions)

    def _noise_variance(self, crowd: Crowd) -> Floats:
        # The variance of Student's t where it has one; three degrees are the fewest that give a useful number.
        tail = max(crowd.tail, 3.0)
        variance: Floats = tail / (tail - 2) / crowd.annotator_precision
        return variance
