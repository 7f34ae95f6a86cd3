"""Gaussian crowd by variational Bayes, with Gaussian or heavy-tailed noise."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from crowdwise.data.ratings import Ratings
from crowdwise.estimator.settings import setting
from crowdwise.methods.ratings.base import NumberMethod, iterate
from crowdwise.methods.ratings.finish import crowd_estimates, doubt_of, warn_of_single_answers
from crowdwise.methods.ratings.problem import Problem
from crowdwise.methods.ratings.result import Estimates
from crowdwise.methods.ratings.variational import Crowd, bound, start, step

__all__ = ["GaussianCrowdBayes"]

Floats = NDArray[np.float64]


@dataclass(repr=False)
class GaussianCrowdBayes(NumberMethod):
    """Values with an annotator's bias and noise, by variational Bayes.

    z_n ~ N(m, s), b_a ~ N(0, v), tau_a ~ Gamma(k, r); a value is z_n + b_a plus noise of precision tau_a. The posteriors of
    items, biases and precisions are found together with the priors (m, s, v, k, r) that raise the bound most, so a crowd of
    equal annotators is pooled and a mixed one is not. Intervals sum out biases and their level, and add the doubt about
    precisions.

    An answer itself is known up to `resolution` of the crowd's noise variance: two annotators who answer alike, as many do who
    always say 0, would become infinitely precise otherwise.

    References
    ----------
    Raykar et al. (2010), Journal of Machine Learning Research 11, section 5, with priors summed out variationally.

    Examples
    --------
    >>> truth = [1, 5, 8, 3, 6, 2, 9, 4]
    >>> slips = [1, -2, 2, 1, -1, 2, -2, 0]
    >>> answers = [answer for t, slip in zip(truth, slips) for answer in (t, t + 0.3, t + slip)]
    >>> values = Ratings.from_arrays([t for t in truth for _ in range(3)], ["x", "y", "z"] * 8, answers)
    >>> GaussianCrowdBayes().fit(values).annotators_["annotator"].to_list()[-1]
    'z'
    """

    resolution: float = setting(0.05, "answers are known up to this share of the crowd's noise variance", low=0)
    shared: bool = setting(True, "one precision of an annotator for all dimensions, else one for each")
    level: str = setting(
        "values", "mean bias 0 over values or annotators, without known values", choices=("values", "annotators")
    )
    tol: float = setting(1e-7, "stop when the bound changes by less, relatively", above=0)
    max_iter: int = setting(1000, "rounds at most", low=1, whole=True)

    name: ClassVar[str] = "gaussian-crowd-bayes"

    def _fit(self, values: Ratings, known: Floats) -> Estimates:
        warn_of_single_answers(values)
        problem = Problem.of(values, known, correct=True)
        crowd, trace, converged = iterate(
            self._begin(problem),
            partial(self._advance, problem),
            partial(bound, problem),
            lambda crowd: crowd.items.mean,
            self.tol,
            self.max_iter,
        )
        self._account(trace, converged, self.max_iter)
        self.crowd_ = crowd
        precision = crowd.precision(problem)
        doubt = doubt_of(problem, crowd.items, precision, crowd.prior_shape, self.shared)[problem.annotator]
        return crowd_estimates(
            values,
            self.name,
            problem,
            crowd.items,
            precision,
            doubt + self._doubt_of_answers(crowd, problem),
            crowd.bias,
            crowd.bias_prior,
            self._noise_variance(crowd),
            self.level,
        )

    def _begin(self, problem: Problem) -> Crowd:
        return start(problem, shared=self.shared, resolution=self.resolution)

    def _advance(self, problem: Problem, crowd: Crowd) -> Crowd:
        return step(problem, crowd, learn_tail=False)

    def _doubt_of_answers(self, crowd: Crowd, problem: Problem) -> float:
        """Variance of the log precision of single answers, beside that of their annotators."""
        return 0.0

    def _noise_variance(self, crowd: Crowd) -> Floats:
        """Noise variance of annotators, [A, D]."""
        variance: Floats = 1 / crowd.annotator_precision
        return variance
