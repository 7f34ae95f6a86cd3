"""Gaussian crowd: a bias and a noise variance per annotator, by EM or by variational Bayes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from crowdwise.data.ratings import Ratings
from crowdwise.engines.loop import Progress, Run
from crowdwise.estimator.estimator import setting
from crowdwise.kernels.types import Floats
from crowdwise.methods.ratings.base import ABOUT_TOL, DIRECT, Found, RatingMethod, iterate
from crowdwise.methods.ratings.finish import answers_alone, point_estimates
from crowdwise.methods.ratings.gaussian import (
    Items,
    annotator_prior,
    free_level,
    infer_items,
    relative_noise,
    update_annotators,
    update_prior,
)
from crowdwise.methods.ratings.problem import Problem
from crowdwise.methods.ratings.variational import start
from crowdwise.methods.ratings.variational_fit import fit_variational

__all__ = ["GaussianCrowd"]


@dataclass(frozen=True, eq=False)
class _State:
    """Items, and as points the biases and precisions, [A, D], with the noise of dimensions, [D]."""

    items: Items
    bias: Floats
    tau: Floats
    noise: Floats

    def precision(self, problem: Problem) -> Floats:
        return problem.weight[:, None] * (self.tau / self.noise)[problem.annotator]


@dataclass(eq=False, repr=False, kw_only=True)
class GaussianCrowd(RatingMethod):
    """Values with an annotator's bias and noise, by EM, or by variational Bayes (`bayes`).

    z_n ~ N(m, s); a value of annotator a on it is z_n + b_a plus noise of precision tau_a.

    By EM, items are summed out; biases, precisions, m and s maximise the probability of the values times a prior of annotators:
    b_a ~ N(0, 1 / (shrinkage tau_a)), and tau_a as if it had shown `strength` times two answers of the overall variance. The
    variance of z_n enters the noise of its annotators: without it, whoever is nearest to the estimates gets all the weight.

    With `bayes`, b_a ~ N(0, v) and tau_a ~ Gamma(k, r). The posteriors of items, biases and precisions are found together with
    the priors (m, s, v, k, r) that raise the bound most, so a crowd of equal annotators is pooled and a mixed one is not.
    Intervals sum out biases and their level, and add the doubt about precisions. An answer itself is known up to `resolution`
    of the crowd's noise variance: two annotators who answer alike, as many do who always say 0, would become infinitely precise
    otherwise. By default nobody is more precise than the steps to which values are rounded, where the values show steps; where
    one of them stands out, as 0 does if many always say it, ties say how far answers are known; answers without ties are known
    exactly. So the noise of the best annotator is found, however much noisier the others are.

    Values of several dimensions are independent given the annotators, who have one precision for all of them (`shared`), times
    a noise of each dimension.

    References
    ----------
    Raykar et al. (2010), Journal of Machine Learning Research 11, section 5 (continuous labels); with `bayes`, with priors
    summed out variationally.

    Examples
    --------
    >>> truth = [1, 5, 8, 3, 6, 2, 9, 4]
    >>> slips = [1, -2, 2, 1, -1, 2, -2, 0]
    >>> answers = [answer for t, slip in zip(truth, slips) for answer in (t, t + 0.3, t + slip)]
    >>> ratings = Ratings.from_arrays([t for t in truth for _ in range(3)], ["x", "y", "z"] * 8, answers)
    >>> GaussianCrowd().fit(ratings).annotators_frame().sort("weight")["annotator"][0]
    'z'
    >>> GaussianCrowd(bayes=True).fit(ratings).annotators_frame().sort("weight")["annotator"][0]
    'z'
    """

    bayes: bool = setting(False, "Variational, with learned priors, instead of EM.")
    shrinkage: float = setting(1.0, "EM: biases shrink as if an annotator had given so many answers without one.", above=0)
    strength: float = setting(
        1.0, "EM: prior of the precisions, counts as twice as many answers of the overall variance.", above=0
    )
    resolution: float | None = setting(
        None,
        "Bayes: answers are known up to this share of the crowd's noise variance; by default as far as steps or ties show "
        "rounding.",
        low=0,
        optional=True,
    )
    shared: bool = setting(True, "One precision of an annotator for all dimensions, else one for each.")
    level: str = setting(
        "values", "Mean bias 0 over values or annotators, without known values.", choices=("values", "annotators")
    )
    tol: float = setting(1e-7, ABOUT_TOL, above=0)
    max_iter: int = setting(1000, "Rounds at most.", low=1, whole=True)

    @property
    def name(self) -> str:  # type: ignore[override]
        """Name in the registry."""
        return "gaussian-crowd-bayes" if self.bayes else "gaussian-crowd"

    def _fit(self, ratings: Ratings, known: Floats, progress: Progress | None) -> tuple[Found, Run[Any]]:
        problem = Problem.of(ratings, known, correct=True)
        alone = answers_alone(problem)
        if alone is not None:
            return alone, DIRECT
        until: dict[str, Any] = {"tol": self.tol, "max_iter": self.max_iter, "progress": progress}
        if self.bayes:
            first = start(problem, shared=self.shared, resolution=self.resolution)
            return fit_variational(problem, first, learn_tail=False, shared=self.shared, level=self.level, **until)
        run = iterate(self._start(problem), partial(self._step, problem), partial(self._score, problem), **until)
        state = run.state
        found = point_estimates(problem, state.items, state.tau, state.noise, state.bias, level=self.level, **self._prior())
        return found, run

    def _start(self, problem: Problem) -> _State:
        shape = (problem.n_annotators, problem.n_dimensions)
        means, noise = problem.item_means(), problem.noise()
        relative = relative_noise(noise) if self.shared else np.ones(len(noise))
        items = Items(means, np.zeros(means.shape), means.mean(axis=0), np.maximum(1 - noise, 0.1))
        state = _State(items, np.zeros(shape), np.broadcast_to(relative / noise, shape), relative)
        return replace(state, items=infer_items(problem, items, state.precision(problem), state.bias))

    def _step(self, problem: Problem, state: _State) -> _State:
        """M-step of biases, precisions, noise and prior; then the posterior of the items."""
        items = state.items
        bias, tau, noise = update_annotators(problem, items, state.noise, **self._prior())
        state = _State(update_prior(items), bias, tau, noise)
        items = infer_items(problem, state.items, state.precision(problem), bias)
        items, bias = free_level(problem, items, state.precision(problem), bias, self.shrinkage * tau / noise)
        return replace(state, items=items, bias=bias)

    def _score(self, problem: Problem, state: _State) -> float:
        """Log-probability of values and annotators, with items summed out."""
        items, precision = state.items, state.precision(problem)
        off = problem.value - items.mean[problem.item] - state.bias[problem.annotator]
        tau = state.tau / state.noise
        log_lik = 0.5 * (problem.weight[:, None] * np.log(tau[problem.annotator] / (2 * np.pi))).sum()
        # At the posterior mean: the square of a sum of Gaussians splits into these two, and what z is uncertain by.
        log_lik -= 0.5 * (precision * off**2).sum()
        log_lik -= 0.5 * ((items.mean - items.prior_mean) ** 2 / items.prior_variance).sum()
        free = ~problem.is_known
        log_lik += 0.5 * (np.log(items.variance[free]) - np.log(items.prior_variance)).sum()
        log_lik -= 0.5 * (np.log(2 * np.pi * items.prior_variance) * problem.is_known.sum()).sum()
        return float(log_lik + annotator_prior(state.tau, state.noise, state.bias, **self._prior()))

    def _prior(self) -> dict[str, Any]:
        return {"shrinkage": self.shrinkage, "strength": self.strength, "shared": self.shared}
