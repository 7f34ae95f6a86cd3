"""The shell of the label-only methods that iterate from a start."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from crowdwise.engines.alternate import Fit, LabelPrior, alternate, alternate_over, best_of
from crowdwise.engines.loop import ABOUT_TOL, warn_unless_converged
from crowdwise.estimator.base import Aggregator
from crowdwise.estimator.problem import Problem
from crowdwise.estimator.settings import random_state_setting, setting
from crowdwise.methods.labels.starts import STARTS, start_of_shards, start_posteriors
from crowdwise.parts.annotators.protocol import AnnotatorModel

__all__ = ["IterativeAggregator"]


@dataclass(eq=False, repr=False, kw_only=True)
class IterativeAggregator(Aggregator):
    """Base of the methods that iterate from a start."""

    max_iter: int = setting(1000, "Most iterations of one run.", low=1, whole=True)
    tol: float = setting(1e-6, ABOUT_TOL, above=0)
    init: Any = setting(
        "votes",
        'Start: vote shares ("votes"), majority labels ("hard-votes"), "random", "one-coin", "moments" (the best of several), '
        "a moment method by its name, or a posterior [N, K].",
        choices=STARTS,
        free=True,
    )
    restarts: int = setting(
        1, "Runs: the first from `init`, the others from random starts; the best bound is kept.", low=1, whole=True
    )
    random_state: int | None = random_state_setting("Seed of the random starts.")
    warm_start: bool = setting(False, "Continue from the previous fit when `fit` is called again.")

    def alternate(self, problem: Problem, prior: LabelPrior, annotators: AnnotatorModel, hard: bool = False) -> Fit:
        """Run engine 1 from every start and keep the best; over shards, resume where an earlier run was interrupted."""
        options: dict[str, Any] = {"max_iter": self.max_iter, "tol": self.tol, "hard": hard, "progress": problem.progress}
        if problem.in_memory:
            return best_of(
                lambda start: alternate(problem.votes, prior, annotators, start=start, known=problem.known, **options),
                start_posteriors(problem, self.init, self.restarts),
            )
        start = None
        if problem.shards.kept(type(annotators).__name__) is None:
            start = start_of_shards(problem, prior, annotators, self.init, hard)
        return warn_unless_converged(alternate_over(problem.shards, prior, annotators, start=start, **options))
