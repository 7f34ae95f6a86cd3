"""Mean, median and a mean weighted by agreement: what every model must beat."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from crowdwise.data.ratings import Ratings
from crowdwise.engines.loop import Progress, Round, Run, loop
from crowdwise.errors import DataWarning
from crowdwise.estimator.estimator import setting
from crowdwise.kernels.types import Floats
from crowdwise.methods.ratings.base import DIRECT, Found, RatingMethod
from crowdwise.methods.ratings.coverage import NoiseOf
from crowdwise.methods.ratings.problem import Problem

__all__ = ["Average"]

# Kinds of averages, and their names in the registry.
_NAMES = {"mean": "mean", "median": "median", "weighted": "weighted-mean"}


@dataclass(eq=False, repr=False, kw_only=True)
class Average(RatingMethod):
    """The mean or the median of the answers on each item, or a mean in which annotators who agree with it weigh more.

    ``kind="mean"``: intervals take all answers as equally noisy and independent: the variance around item means, pooled, over
    the number of answers. Biases that annotators carry from item to item are not in them.

    ``kind="median"``: dimension by dimension. Intervals are those of the mean, times what a median of Gaussian answers loses:
    up to a factor of 1.25.

    ``kind="weighted"``: the plain loop that circulates: weights 1 / (mse + floor), and the mean again, `rounds` times. It does
    not know that the mean is drawn to those who weigh most, so whoever comes nearest may end up alone; `gaussian-crowd` is the
    cure. Intervals take the weights as known: where one annotator has most of the weight, they are far too narrow, and a
    warning says so.

    Examples
    --------
    >>> Average().fit(Ratings.from_arrays(["a", "a", "b"], ["x", "y", "x"], [1, 2, 5])).estimate_.ravel().tolist()
    [1.5, 5.0]
    >>> Average(kind="median").fit(Ratings.from_arrays(["a", "a", "a"], ["x", "y", "z"], [1, 2, 50])).estimate_.item()
    2.0
    >>> ratings = Ratings.from_arrays([1, 1, 1, 2, 2, 2], ["x", "y", "z"] * 2, [1, 1.2, 4, 5, 5.1, 2])
    >>> Average(kind="weighted", rounds=1).fit(ratings).annotators_frame().sort("weight")["annotator"][0]
    'z'
    """

    kind: str = setting("mean", "Mean, median, or mean weighted by agreement with it.", choices=tuple(_NAMES))
    rounds: int = setting(50, "Weighted: how often weights and means are computed.", low=1, whole=True)
    floor: float = setting(1e-9, "Weighted: added to the mean squared distances, in units of the overall variance.", above=0)

    noise_is: ClassVar[NoiseOf] = "alike"

    @property
    def name(self) -> str:  # type: ignore[override]
        """Name in the registry."""
        return _NAMES.get(self.kind, "mean")

    @property
    def about_interval(self) -> str:
        """What the intervals take for granted."""
        weighted = "the weights being the true ones"
        alike = "all annotators being equally precise"
        return f"if answers err independently and without bias, {weighted if self.kind == 'weighted' else alike}"

    def _fit(self, ratings: Ratings, known: Floats, progress: Progress | None) -> tuple[Found, Run[Any]]:
        problem = Problem.of(ratings, known)
        if self.kind == "weighted":
            return self._weighted(problem, progress)
        return (_means if self.kind == "mean" else _all_medians)(problem), DIRECT

    def _weighted(self, problem: Problem, progress: Progress | None) -> tuple[Found, Run[Any]]:
        count = np.maximum(problem.count, 1e-300)

        def step(state: tuple[Floats, Floats]) -> tuple[tuple[Floats, Floats], Round]:
            before = state[0]
            off = (problem.value - before[problem.item]) ** 2
            mse = problem.by_annotator(problem.weight[:, None] * off).mean(axis=1) / count
            weight = 1 / (mse + self.floor)
            each = (problem.weight * weight[problem.annotator])[:, None]
            total = problem.by_item(each)
            estimate = problem.by_item(each * problem.value) / np.where(total > 0, total, np.nan)
            estimate = np.where(problem.is_known[:, None], problem.known, estimate)
            moved = np.abs(estimate - before)
            return (estimate, weight), Round(float(moved[np.isfinite(moved)].mean()) if np.isfinite(moved).any() else 0.0)

        # As many rounds as were asked for; fewer only where another would change nothing.
        start = problem.item_means(), np.ones(problem.n_annotators)
        run = replace(loop(step, start, max_iter=self.rounds, tol=0.0, progress=progress), converged=True)
        estimate, weight = run.state
        total = problem.by_item(problem.weight[:, None] * weight[problem.annotator, None])
        _warn_of_one(weight, problem)
        return plain_estimates(problem, estimate, 1 / np.maximum(total, 1e-300), weight), run


def _warn_of_one(weight: Floats, problem: Problem) -> None:
    """Warn where an answer of one annotator weighs more than one of each of the others together."""
    voted = np.flatnonzero(problem.count > 0)
    heaviest = float(weight[voted].max(initial=0.0))
    # The mean of two is as far from both.
    if len(voted) and heaviest > (1 + 1e-6) * (float(weight[voted].sum()) - heaviest):
        words = (
            "weighted-mean: one annotator weighs more than all others together, so estimates are nearly these answers, and "
            "intervals are too narrow; use gaussian-crowd-bayes"
        )
        warnings.warn(words, DataWarning, stacklevel=5)


def _means(problem: Problem) -> Found:
    weight = problem.weight[:, None]
    total = problem.by_item(weight)
    estimate = problem.by_item(weight * problem.value) / np.where(total > 0, total, np.nan)
    return plain_estimates(problem, estimate, problem.noise() / np.maximum(total, 1e-300), None)


def _all_medians(problem: Problem) -> Found:
    estimate = np.stack([_medians(problem, d) for d in range(problem.n_dimensions)], axis=1)
    total = np.maximum(problem.by_item(problem.weight[:, None]), 1e-300)
    # pi / 2 is the loss with many answers; with one there is none.
    loss = np.pi / 2 * total / (total + np.pi / 2 - 1)
    return plain_estimates(problem, estimate, loss * problem.noise() / total, None)


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


def plain_estimates(problem: Problem, estimate: Floats, variance: Floats, weight: Floats | None) -> Found:
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
    return {
        "estimate": estimate * problem.spread + problem.centre,
        "scale": np.where(known, 0.0, np.sqrt(variance)) * problem.spread,
        "freedom": np.full(estimate.shape, freedom),
        "bias": bias * problem.spread,
        "noise": np.sqrt(squares) * problem.spread,
        "weight": share / share.sum(),
        "reliability": signal / np.maximum(signal + squares.sum(axis=1), 1e-300),
    }
