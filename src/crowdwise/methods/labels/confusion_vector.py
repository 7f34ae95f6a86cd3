"""Confusion vector: one accuracy per annotator and true class, wrong answers uniform.

Model      P(vote l | true k) = w_ak if l = k else (1 - w_ak) / (K - 1)
M-step     w_ak = (expected right answers on class k + right) / (answers on k + right + wrong)

Notes
-----
Between one-coin (one number per annotator) and Dawid-Skene (K^2). The off-diagonal depends on the
true class, which some presentations print the other way round. Cost per iteration: O(E K).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from crowdwise.engines.loop import Fit
from crowdwise.estimator.aggregator import Problem
from crowdwise.estimator.estimator import setting
from crowdwise.estimator.history import right_and_wrong
from crowdwise.methods.labels.dawid_skene import IterativeAggregator
from crowdwise.parts.annotators.accuracy import ClassAccuracy

__all__ = ["ConfusionVector"]


@dataclass(eq=False, repr=False, kw_only=True)
class ConfusionVector(IterativeAggregator):
    """One accuracy per annotator and true class, wrong answers uniform over the other classes."""

    right: float = setting(2.0, "Pseudo-count of right answers per annotator and class (Beta prior).", low=0)
    wrong: float = setting(1.0, "Pseudo-count of wrong answers per annotator and class (Beta prior).", low=0)

    name: ClassVar[str] = "confusion-vector"

    def _fit(self, problem: Problem) -> Fit:
        crowd = problem.crowd
        right, wrong = right_and_wrong(problem.history, crowd.n_annotators, crowd.n_classes)
        return self.alternate(problem, problem.marginals(), ClassAccuracy.start(right + self.right, wrong + self.wrong))
