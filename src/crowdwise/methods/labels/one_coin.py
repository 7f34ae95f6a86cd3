"""One-coin: one accuracy per annotator, wrong answers uniform over the other classes.

Model      P(vote l | true k) = w_a if l = k else (1 - w_a) / (K - 1)
M-step     w_a = (expected right answers + right) / (answers + right + wrong)

Notes
-----
A MAP estimate under Beta(1 + right, 1 + wrong); the defaults 2 and 1 make it the posterior mean
under Beta(2, 1), so that nobody is infallible after one right answer. One number per annotator suits
annotators with few votes; where classes are confused in one direction more than in the other it can
lose to majority vote. Class shares default to uniform: learned ones and symmetric annotators feed
each other. Cost per iteration: O(E), no factor K.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from crowdwise.engines.loop import Fit
from crowdwise.estimator.aggregator import Problem
from crowdwise.estimator.estimator import setting
from crowdwise.methods.labels.dawid_skene import IterativeAggregator, one_coin_parts

__all__ = ["OneCoin"]


@dataclass(eq=False, repr=False, kw_only=True)
class OneCoin(IterativeAggregator):
    """One accuracy per annotator, wrong answers uniform over the other classes."""

    class_prior: Any = setting("uniform", 'Class shares: "uniform", "learn", or K probabilities.', free=True)
    right: float = setting(2.0, "Pseudo-count of right answers per annotator (Beta prior).", low=0)
    wrong: float = setting(1.0, "Pseudo-count of wrong answers per annotator (Beta prior).", low=0)

    name: ClassVar[str] = "one-coin"

    def _fit(self, problem: Problem) -> Fit:
        return self.alternate(problem, problem.marginals(), one_coin_parts(problem, self.right, self.wrong))
