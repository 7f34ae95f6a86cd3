"""The Gaussian crowd by variational Bayes, with Gaussian or heavy-tailed noise: from the first crowd to estimates."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from crowdwise.engines.loop import Run
from crowdwise.kernels.types import Floats
from crowdwise.methods.ratings.base import Found, iterate
from crowdwise.methods.ratings.finish import crowd_estimates, doubt_of
from crowdwise.methods.ratings.problem import Problem
from crowdwise.methods.ratings.variational import Crowd, bound, step

__all__ = ["fit_variational"]


def fit_variational(
    problem: Problem, start: Crowd, *, learn_tail: bool, shared: bool, level: str, **until: Any
) -> tuple[Found, Run[Crowd]]:
    """Raise the bound from `start` on, and return estimates with their intervals.

    Parameters
    ----------
    learn_tail : bool
        Learn the degrees of freedom of the noise.
    shared, level
        As in `GaussianCrowd`.
    until
        `tol`, `max_iter` and `progress`.
    """
    run = iterate(start, partial(step, problem, learn_tail=learn_tail), partial(bound, problem), **until)
    crowd: Crowd = run.state
    precision = crowd.precision(problem)
    doubt = doubt_of(problem, crowd.items, precision, crowd.prior_shape, shared)[problem.annotator]
    doubt = doubt + _doubt_of_answers(crowd, problem)
    variance = _noise_variance(crowd)
    return crowd_estimates(problem, crowd.items, precision, doubt, crowd.bias, crowd.bias_prior, variance, level), run


def _doubt_of_answers(crowd: Crowd, problem: Problem) -> float:
    """Variance of the log precision of single answers, beside that of their annotators; none of Gaussian noise."""
    return 2 / (crowd.tail + problem.n_dimensions)


def _noise_variance(crowd: Crowd) -> Floats:
    """Noise variance of annotators, [A, D]: that of Student's t where it has one, and of a Gaussian without tails."""
    # Three degrees of freedom are the fewest that give a useful number.
    tail = max(crowd.tail, 3.0)
    heavy = 1.0 if np.isinf(tail) else tail / (tail - 2)
    variance: Floats = heavy / crowd.annotator_precision
    return variance
