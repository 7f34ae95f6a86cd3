"""From a fitted Gaussian crowd to estimates in the users' units, with the level of biases fixed and intervals that cover."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np

from crowdwise.errors import DataWarning
from crowdwise.kernels.types import Floats
from crowdwise.methods.ratings.gaussian import Items
from crowdwise.methods.ratings.intervals import uncertainty
from crowdwise.methods.ratings.problem import Problem

__all__ = ["answers_alone", "crowd_estimates", "doubt_of", "point_estimates"]

Found = dict[str, Any]


def doubt_of(problem: Problem, items: Items, precision: Floats, prior: float, shared: bool) -> Floats:
    """Variance of the log precision of every annotator, [A, D], by the information in the answers.

    An answer tells less of the noise the more it decided its item by itself: (1 - p / P)^2 of an answer on a known item.
    """
    alone = 1 - precision * items.variance[problem.item]
    told = 0.5 * problem.by_annotator(problem.weight[:, None] * alone**2)
    if shared:
        told = np.broadcast_to(told.sum(axis=1, keepdims=True), told.shape)
    doubt: Floats = 1 / (prior + told)
    return doubt


def crowd_estimates(
    problem: Problem,
    items: Items,
    precision: Floats,
    doubt: Floats,
    bias: Floats,
    bias_prior: Floats,
    noise_variance: Floats,
    level: str,
    signal: float | None = None,
) -> Found:
    """Estimates, intervals and the columns of annotators, as the fields of an `Estimates`.

    Parameters
    ----------
    precision, doubt : [E, D]
        Of every answer: expected precision, and the variance of its logarithm.
    bias, noise_variance : [A, D]
    bias_prior : [D]
        Variance of biases in the crowd.
    level : {"values", "annotators"}
        Over what the mean bias is zero, where no known value tells.
    signal : float, optional
        Variance of the items over all dimensions; by default that of their prior.
    """
    n_annotators = problem.n_annotators
    # One degree of freedom of the biases has gone into their common level.
    spread_of_biases = bias_prior * n_annotators / max(n_annotators - 1, 1)
    found = uncertainty(problem, items, precision, doubt, bias, np.broadcast_to(1 / spread_of_biases, bias.shape))
    variance = found.variance
    if level == "values" and not problem.is_known.any():
        share = (problem.count / problem.count.sum())[:, None]
        shift = (share * bias).sum(axis=0)
        items = replace(items, mean=items.mean + shift, prior_mean=items.prior_mean + shift)
        bias = bias - shift
        variance = variance + spread_of_biases * max(float((share**2).sum()) - 1 / n_annotators, 0.0)
    told = problem.by_item(precision)
    total = told + 1 / items.prior_variance
    weight = problem.by_annotator(precision).mean(axis=1)
    signal = float(items.prior_variance.sum()) if signal is None else signal
    return {
        "estimate": items.mean * problem.spread + problem.centre,
        "scale": np.sqrt(variance) * problem.spread,
        "freedom": found.freedom,
        "from_noise": told / total**2 / np.where(variance > 0, variance, 1.0),
        "bias": bias * problem.spread + problem.offset,
        "noise": np.sqrt(noise_variance) * problem.spread,
        "weight": weight / weight.sum(),
        "reliability": signal / (signal + noise_variance.sum(axis=1)),
        "more": {"bias_sd": np.sqrt(found.bias_variance) * problem.spread},
    }


def point_estimates(
    problem: Problem,
    items: Items,
    tau: Floats,
    noise: Floats,
    bias: Floats,
    *,
    shrinkage: float,
    strength: float,
    shared: bool,
    level: str,
    signal: float | None = None,
) -> Found:
    """The same for annotators as points (see `GaussianCrowd`): tau, [A, D], noise of dimensions, [D], biases, [A, D]."""
    precision = problem.weight[:, None] * (tau / noise)[problem.annotator]
    doubt = doubt_of(problem, items, precision, strength, shared)[problem.annotator]
    variance = noise / tau
    # The prior of a bias is one of its annotator's noise; what intervals need is the spread of biases in the crowd.
    own = variance / (shrinkage + problem.count[:, None])
    spread = np.maximum((bias**2 + own).mean(axis=0), 1e-6)
    return crowd_estimates(problem, items, precision, doubt, bias, spread, variance, level, signal)


def answers_alone(problem: Problem) -> Found | None:
    """The answers themselves, where no item has two and none is known: nothing tells noise from what items differ by.

    An answer may then be off by as much as values differ, and so wide are intervals. None where there is more to learn.
    """
    given = problem.item[problem.weight > 0]
    if np.bincount(given, minlength=problem.n_items).max(initial=0) > 1 or problem.is_known[given].any():
        return None
    words = "no item has two values, so nothing can be learned of annotators; the values are returned as they are"
    warnings.warn(words, DataWarning, stacklevel=5)
    shape, people = (problem.n_items, problem.n_dimensions), (problem.n_annotators, problem.n_dimensions)
    known = problem.is_known[:, None]
    return {
        "estimate": problem.item_means() * problem.spread + problem.centre,
        "scale": np.where(known, 0.0, np.ones(shape)) * problem.spread,
        "freedom": np.full(shape, max(float(problem.weight.sum()) - 1, 1.0)),
        "bias": np.zeros(people),
        "noise": np.ones(people) * problem.spread,
        "weight": problem.count / problem.count.sum(),
        # Nothing shows that answers follow the true values.
        "reliability": np.zeros(problem.n_annotators),
    }
