"""Mean, median and a mean weighted by agreement: what every model must beat."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from crowdwise.data.ratings import Ratings
from crowdwise.estimator.settings import setting
from crowdwise.methods.ratings.base import NumberMethod
from crowdwise.methods.ratings.problem import Problem
from crowdwise.methods.ratings.result import Estimates

__all__ = ["MeanValue", "MedianValue", "WeightedMeanValue"]

Floats = NDArray[np.float64]


@dataclass(repr=False)
class MeanValue(NumberMethod):
    """The mean of the answers on each item.

    Intervals take all answers as equally noisy and independent: the variance around item means, pooled, over the number of
    answers. Biases that annotators carry from item to item are not in them.

    Examples
    --------
    >>> MeanValue().fit(Ratings.from_arrays(["a", "a", "b"], ["x", "y", "x"], [1, 2, 5])).estimate_.ravel().tolist()
    [1.5, 5.0]
    """

    name: ClassVar[str] = "mean"

    def _fit(self, values: Ratings, known: Floats) -> Estimates:
        problem = Problem.of(values, known)
        weight = problem.weight[:, None]
        total = problem.by_item(weight)
        estimate = problem.by_item(weight * problem.value) / np.where(total > 0, total, np.nan)
        return plain_estimates(values, self.name, problem, estimate, problem.noise() / np.maximum(total, 1e-300), None)


@dataclass(repr=False)
class MedianValue(NumberMethod):
    """The median of the answers on each item, dimension by dimension.

    Intervals are those of the mean, times what a median of Gaussian answers loses: up to a factor of 1.25.

    Examples
    --------
    >>> MedianValue().fit(Ratings.from_arrays(["a", "a", "a"], ["x", "y", "z"], [1, 2, 50])).estimate_.item()
    2.0
    """

    name: ClassVar[str] = "median"

    def _fit(self, values: Ratings, known: Floats) -> Estimates:
        problem = Problem.of(values, known)
        estimate = np.stack([_medians(problem, d) for d in range(problem.n_dimensions)], axis=1)
        total = np.maximum(problem.by_item(problem.weight[:, None]), 1e-300)
        # pi / 2 is the loss with many answers; with one there is none.
        loss = np.pi / 2 * total / (total + np.pi / 2 - 1)
        return plain_estimates(values, self.name, problem, estimate, loss * problem.noise() / total, None)


@dataclass(repr=False)
class WeightedMeanValue(NumberMethod):
    """A mean in which annotators weigh one over their mean squared distance from it, again and again.

    The plain loop that circulates: weights 1 / (mse + floor), and the mean anew. It does not know that the mean is drawn to
    those who weigh most, so whoever comes nearest may end up alone; `gaussian-crowd` is the cure.

    Examples
    --------
    >>> values = Ratings.from_arrays([1, 1, 1, 2, 2, 2], ["x", "y", "z"] * 2, [1, 1.2, 4, 5, 5.1, 2])
    >>> WeightedMeanValue(rounds=3).fit(values).annotators_["annotator"].to_list()[-1]
    'z'
    """

    rounds: int = setting(50, "how often weights and means are computed", low=1, whole=True)
    floor: float = setting(1e-9, "added to the mean squared distances, in units of the overall variance", above=0)

    name: ClassVar[str] = "weighted-mean"

    def _fit(self, values: Ratings, known: Floats) -> Estimates:
        problem = Problem.of(values, known)
        count = np.maximum(problem.count, 1e-300)
        estimate, weight = problem.item_means(), np.ones(problem.n_annotators)
        for _ in range(self.rounds):
            off = (problem.value - estimate[problem.item]) ** 2
            mse = problem.by_annotator(problem.weight[:, None] * off).mean(axis=1) / count
            weight = 1 / (mse + self.floor)
            each = (problem.weight * weight[problem.annotator])[:, None]
            total = problem.by_item(each)
            estimate = problem.by_item(each * problem.value) / np.where(total > 0, total, np.nan)
            estimate = np.where(problem.is_known[:, None], problem.known, estimate)
        self.n_iter_ = self.rounds
        total = problem.by_item(problem.weight[:, None] * weight[problem.annotator, None])
        return plain_estimates(values, self.name, problem, estimate, 1 / np.maximum(total, 1e-300), weight)


def _medians(problem: Problem, d: int) -> Floats:
    """Weighted median of every item in one dimension, [N]; NaN without answers."""
    found = np.full(problem.n_items, np.nan)
    order = np.lexsort((problem.value[:, d], problem.item))
    order = order[problem.weight[order] > 0]
    item, value, weight = problem.item[order], problem.value[order, d], problem.weight[order]
    if not len(item):
        return found
    first = np.flatnonzero(np.r_[True, item[1:] != item[:-1]])
    size = np.diff(np.r_[first, len(item)])
    running = np.cumsum(weight)
    before = np.repeat(running[first] - weight[first], size)
    half = np.repeat(np.add.reduceat(weight, first), size) / 2
    # The lower median is where half the weight is reached; exactly half there means that the next value is a median too.
    reached = (running - before) >= half * (1 - 1e-12)
    position = np.arange(len(item))
    low = np.minimum.reduceat(np.where(reached, position, len(item)), first)
    even = np.abs((running - before)[low] - half[low]) <= 1e-12 * half[low]
    high = np.where(even, np.minimum(low + 1, first + size - 1), low)
    found[item[first]] = (value[low] + value[high]) / 2
    return found


def plain_estimates(
    values: Ratings, method: str, problem: Problem, estimate: Floats, variance: Floats, weight: Floats | None
) -> Estimates:
    """Estimates without a model of annotators; their table is measured from the estimates.

    Parameters
    ----------
    estimate, variance : [N, D]
        In the units of `problem`.
    weight : [A] or None
        Of one answer; None means that all are equal.
    """
    known = problem.is_known[:, None]
    estimate = np.where(known, problem.known, estimate)
    off = problem.value - estimate[problem.item]
    count = np.maximum(problem.count, 1e-300)[:, None]
    bias = problem.by_annotator(problem.weight[:, None] * off) / count
    squares = problem.by_annotator(problem.weight[:, None] * (off - bias[problem.annotator]) ** 2) / count
    share = problem.count * (1.0 if weight is None else weight)
    signal = float(np.nansum(np.nanvar(estimate, axis=0))) if np.isfinite(estimate).any() else 0.0
    freedom = max(float(problem.weight.sum()) - np.isfinite(estimate).all(axis=1).sum(), 1.0)
    return Estimates(
        values,
        method,
        estimate * problem.spread + problem.centre,
        np.where(known, 0.0, np.sqrt(variance)) * problem.spread,
        np.full(estimate.shape, freedom),
        bias * problem.spread,
        np.sqrt(squares) * problem.spread,
        share / share.sum(),
        signal / np.maximum(signal + squares.sum(axis=1), 1e-300),
    )
