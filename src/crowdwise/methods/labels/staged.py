"""How mixtures of annotators start: from the fit of one group, so that grouping looks at sensible labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crowdwise.engines.loop import Fit, alternate, best_of
from crowdwise.estimator.aggregator import Problem
from crowdwise.kernels.types import Floats
from crowdwise.methods.labels.dawid_skene import start_posteriors

if TYPE_CHECKING:
    from collections.abc import Callable

    from crowdwise.engines.loop import Progress
    from crowdwise.methods.labels.dawid_skene import IterativeAggregator
    from crowdwise.parts.annotators.model import AnnotatorModel

__all__ = ["fit_in_stages", "most_groups"]


# How annotators are grouped hangs on small differences of the fit of one group, so that goes further than others.
_START_TOL = 1e-10


def most_groups(problem: Problem, wanted: int) -> int:
    """No more groups than annotators with votes or with a history."""
    votes = problem.votes
    active = votes.weight_per_annotator > 0
    if problem.history is not None:
        active |= problem.history.sum(axis=(1, 2)) > 0
    return min(wanted, max(int(active.sum()), 1))


def fit_in_stages(method: IterativeAggregator, problem: Problem, build: Callable[[int], AnnotatorModel], groups: int) -> Fit:
    """Engine 1 with `groups` groups of annotators.

    The first start (or the warm one) is the posterior of the same model with one group, fitted from it: that
    fit has hardly a choice of optima, so a full fit and an update group annotators alike. Random starts group
    annotators at once, to reach other optima.
    """
    prior = problem.marginals()

    def run(model: AnnotatorModel, start: Floats, tol: float, progress: Progress | None) -> Fit:
        options: dict[str, Any] = {"known": problem.known, "max_iter": method.max_iter, "tol": tol, "progress": progress}
        return alternate(problem.votes, prior, model, start=start, **options)

    starts = start_posteriors(problem, method.init, method.restarts)
    if groups > 1:
        starts[0] = run(build(1), starts[0], min(method.tol, _START_TOL), None).posterior
    model = build(groups)
    return best_of(lambda start: run(model, start, method.tol, problem.progress), starts)
