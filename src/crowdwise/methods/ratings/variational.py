"""Variational Bayes for values: Gaussian items and biases, Gamma precisions, Gamma scales of single answers for heavy tails.

q(z) q(b) q(tau) q(u), each updated in closed form; the parameters of their priors are those that raise the bound most. So the
bound never falls.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import digamma, gammaln, polygamma

from crowdwise.kernels.types import Floats
from crowdwise.methods.ratings.gaussian import Items, free_level, infer_items, item_evidence, relative_noise, update_prior
from crowdwise.methods.ratings.problem import Problem

__all__ = ["Crowd", "bound", "gamma_prior", "start", "step", "tail_weight"]


# Priors learned from few annotators would claim to know them.
_ENOUGH = 5
# Where all answers agree there is no noise to take a share of: a thousandth of the unit is as fine as anybody answers.
_FINEST = 1e-6
_SHAPES = (0.5, 50.0)
# The spread of biases is learned as if so many annotators more had been seen, with biases of a tenth of the noise variance:
# a few annotators could seem to have none at all, and the level would seem to be known.
_BIASES = 2.0
_TAILS = (3.0, 50.0)


@dataclass(frozen=True, eq=False)
class Crowd:
    """What is believed of items, annotators and single answers.

    Attributes
    ----------
    items : Items
    bias, bias_variance : [A, D]
        b ~ N(bias, bias_variance), with prior N(0, bias_prior), [D].
    shape, rate : [A] or [A, D]
        tau ~ Gamma(shape, rate), with prior Gamma(prior_shape, prior_rate).
    noise : [D]
        An answer of annotator a has the noise variance noise_d / tau_a, where annotators have one precision for all dimensions.
    tail : float
        Degrees of freedom of the noise; infinite where it is Gaussian.
    scale_shape, scale_rate : [E]
        u ~ Gamma(scale_shape, scale_rate) multiplies the precision of an answer.
    resolution : [D]
        Variance with which an answer itself is known; without it, two annotators who agree would become infinitely precise.
    finest : [D]
        Least noise variance of an annotator, that of rounding. It is part of every answer already, so that adding it as a
        `resolution` would count it twice, and again in what follows from it: the best annotator would weigh too little.
    usual_bias : [D]
        Variance of biases before any is seen.
    """

    items: Items
    bias: Floats
    bias_variance: Floats
    bias_prior: Floats
    shape: Floats
    rate: Floats
    prior_shape: float
    prior_rate: float
    noise: Floats
    tail: float
    scale_shape: Floats
    scale_rate: Floats
    resolution: Floats
    finest: Floats
    usual_bias: Floats

    @property
    def annotator_precision(self) -> Floats:
        """E[tau] / noise, [A, D]."""
        mean = self.shape / self.rate
        return (mean[:, None] if mean.ndim == 1 else mean) / self.noise

    def precision(self, problem: Problem) -> Floats:
        """Expected precision of every answer with its weight, [E, D]."""
        scale = problem.weight if np.isinf(self.tail) else problem.weight * (self.scale_shape / self.scale_rate)
        return scale[:, None] * self.annotator_precision[problem.annotator]

    def squares(self, problem: Problem) -> Floats:
        """Expected squared residual of every answer, [E, D]: the variance of z and of b belongs to it."""
        off = problem.value - self.items.mean[problem.item] - self.bias[problem.annotator]
        return off**2 + self.items.variance[problem.item] + self.bias_variance[problem.annotator] + self.resolution


def start(problem: Problem, *, shared: bool, resolution: float | None, heavy: bool = False, tail: float | None = None) -> Crowd:
    """All annotators alike and unbiased; items at the mean of their answers.

    Without a `resolution`, the steps of the values say how precise anybody can be, and where they show none, ties do.
    """
    n, a, d = problem.n_items, problem.n_annotators, problem.n_dimensions
    noise = problem.noise()
    means = problem.item_means()
    items = Items(means, np.full((n, d), 0.1), means.mean(axis=0), np.maximum(1 - noise, 0.1))
    shape = np.full(a if shared else (a, d), 1.0)
    usual = float(np.exp(np.log(noise).mean()))
    rate = shape * (usual if shared else noise)
    steps = problem.steps()
    stepped = np.isfinite(steps) & (resolution is None)
    of_answers = problem.rounding() if resolution is None else resolution * problem.usual_noise()
    freedom = (4.0 if tail is None else tail) if heavy else np.inf
    ones = np.ones(len(problem.item)) if heavy else np.ones(0)
    first = Crowd(
        items,
        np.zeros((a, d)),
        np.zeros((a, d)),
        np.full(d, 0.1),
        shape,
        rate,
        1.0,
        usual,
        relative_noise(noise) if shared else np.ones(d),
        freedom,
        ones,
        ones,
        np.maximum(np.where(stepped, 0.0, of_answers), _FINEST),
        np.where(stepped, steps**2 / 12, 0.0),
        0.1 * problem.usual_noise() + 1e-6,
    )
    return replace(first, items=infer_items(problem, first.items, first.precision(problem), first.bias))


def step(problem: Problem, crowd: Crowd, *, learn_tail: bool) -> Crowd:
    """Update every factor once."""
    if not np.isinf(crowd.tail):
        crowd = _update_scales(problem, crowd, learn_tail)
    crowd = _update_biases(problem, crowd)
    crowd = _update_precisions(problem, crowd)
    items = infer_items(problem, crowd.items, crowd.precision(problem), crowd.bias)
    items, bias = free_level(problem, items, crowd.precision(problem), crowd.bias, _bias_precision(crowd))
    return replace(crowd, items=update_prior(items), bias=bias)


def _bias_precision(crowd: Crowd) -> Floats:
    return np.broadcast_to(1 / crowd.bias_prior, crowd.bias.shape)


def _update_scales(problem: Problem, crowd: Crowd, learn_tail: bool) -> Crowd:
    squares = (crowd.annotator_precision[problem.annotator] * crowd.squares(problem)).sum(axis=1)
    shape = (crowd.tail + problem.weight * problem.n_dimensions) / 2
    crowd = replace(crowd, scale_shape=shape, scale_rate=(crowd.tail + problem.weight * squares) / 2)
    if learn_tail and len(shape):
        crowd = replace(crowd, tail=tail_weight(digamma(shape) - np.log(crowd.scale_rate), shape / crowd.scale_rate))
    return crowd


def tail_weight(log_scale: Floats, scale: Floats) -> float:
    """Degrees of freedom under which scales with these expected logarithms and values are most likely."""
    from scipy.optimize import minimize_scalar

    # The scales enter through one number; at most 1, by Jensen's inequality.
    kept = float((log_scale - scale).mean())

    def loss(log_tail: float) -> float:
        half = np.exp(log_tail) / 2
        return -float(half * np.log(half) - gammaln(half) + half * kept)

    found = minimize_scalar(loss, bounds=np.log(_TAILS), method="bounded", options={"xatol": 1e-6})
    return float(np.exp(found.x))


def _update_biases(problem: Problem, crowd: Crowd) -> Crowd:
    precision = crowd.precision(problem)
    variance = 1 / (1 / crowd.bias_prior + problem.by_annotator(precision))
    bias = variance * problem.by_annotator(precision * (problem.value - crowd.items.mean[problem.item]))
    squares = (bias**2 + variance).sum(axis=0) + _BIASES * crowd.usual_bias
    prior = squares / (problem.n_annotators + _BIASES)
    return replace(crowd, bias=bias, bias_variance=variance, bias_prior=prior)


def _update_precisions(problem: Problem, crowd: Crowd) -> Crowd:
    scale = problem.weight if np.isinf(crowd.tail) else problem.weight * (crowd.scale_shape / crowd.scale_rate)
    count = problem.count
    squares = np.maximum(problem.by_annotator(scale[:, None] * crowd.squares(problem)), crowd.finest * count[:, None])
    if crowd.shape.ndim == 1:
        shape = crowd.prior_shape + problem.n_dimensions * count / 2
        rate = crowd.prior_rate + (squares / crowd.noise).sum(axis=1) / 2
        if problem.n_dimensions > 1:
            crowd = replace(crowd, noise=relative_noise(((shape / rate)[:, None] * squares).sum(axis=0)))
    else:
        shape = np.broadcast_to(crowd.prior_shape + count[:, None] / 2, squares.shape)
        rate = crowd.prior_rate + squares / 2
    prior_shape, prior_rate = gamma_prior(shape, rate, crowd.prior_shape)
    return replace(crowd, shape=shape, rate=rate, prior_shape=prior_shape, prior_rate=prior_rate)


def gamma_prior(shape: Floats, rate: Floats, prior_shape: float) -> tuple[float, float]:
    """Shape and rate of the Gamma prior under which precisions with these posteriors are most likely."""
    mean = float((shape / rate).mean())
    if shape.shape[0] < _ENOUGH:
        return prior_shape, prior_shape / mean
    gap = np.log(mean) - float((digamma(shape) - np.log(rate)).mean())
    found = (3 - gap + np.sqrt((gap - 3) ** 2 + 24 * gap)) / (12 * gap) if gap > 1e-9 else _SHAPES[1]
    for _ in range(8):
        # Newton's step for log(k) - digamma(k) = gap, on log k so that it stays positive.
        slope = found * (1 / found - float(polygamma(1, found)))
        found = float(np.clip(found * np.exp(np.clip(-(np.log(found) - float(digamma(found)) - gap) / slope, -1, 1)), *_SHAPES))
    return found, found / mean


def bound(problem: Problem, crowd: Crowd) -> float:
    """Lower bound of the log-probability of the values, and of the spread of biases under its prior."""
    log_precision = digamma(crowd.shape) - np.log(crowd.rate)
    log_precision = (log_precision[:, None] if log_precision.ndim == 1 else log_precision) - np.log(crowd.noise)
    weight = problem.weight[:, None]
    log_lik = 0.5 * (weight * (log_precision[problem.annotator] - np.log(2 * np.pi))).sum()
    log_lik -= 0.5 * (crowd.precision(problem) * crowd.squares(problem)).sum()
    if not np.isinf(crowd.tail):
        log_scale = digamma(crowd.scale_shape) - np.log(crowd.scale_rate)
        log_lik += 0.5 * problem.n_dimensions * (problem.weight * log_scale).sum()
        log_lik -= _gamma_divergence(crowd.scale_shape, crowd.scale_rate, crowd.tail / 2, crowd.tail / 2)
    biases = np.log(crowd.bias_prior / crowd.bias_variance) + (crowd.bias**2 + crowd.bias_variance) / crowd.bias_prior - 1
    divergence = 0.5 * biases.sum() + _gamma_divergence(crowd.shape, crowd.rate, crowd.prior_shape, crowd.prior_rate)
    # The prior of `bias_prior`, without its constant.
    hyper = 0.5 * _BIASES * (np.log(crowd.bias_prior) + crowd.usual_bias / crowd.bias_prior).sum()
    return float(log_lik + item_evidence(problem, crowd.items) - divergence - hyper)


def _gamma_divergence(shape: Floats, rate: Floats, prior_shape: float, prior_rate: float) -> float:
    """KL divergence of Gamma(shape, rate) from Gamma(prior_shape, prior_rate), summed."""
    each = (shape - prior_shape) * digamma(shape) - gammaln(shape) + gammaln(prior_shape)
    each += prior_shape * (np.log(rate) - np.log(prior_rate)) + shape * (prior_rate - rate) / rate
    return float(each.sum())
