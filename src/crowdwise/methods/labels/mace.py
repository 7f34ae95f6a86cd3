"""MACE: annotators who are honest at times and spam at others, each with an own habit.

Model      a vote is honest with probability theta_a and then equals the label; otherwise it is
           drawn from the annotator's habit xi_a, whatever the item.
Posterior  theta_a ~ Beta, xi_a ~ Dirichlet (variational Bayes); see `crowdwise.parts.annotators.spammer`.

Notes
-----
Priors as published: Beta(0.5, 0.5) for honesty, Dirichlet(10) for habits; the label prior is
uniform in the paper, so `class_prior` defaults to "uniform" here. The paper runs 50 iterations from
10 random starts; vote shares are a better first start, and `restarts` adds random ones. Cost per
iteration: O(E).

References
----------
Hovy, Berg-Kirkpatrick, Vaswani and Hovy (2013), Learning whom to trust with MACE, NAACL-HLT.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from crowdwise.engines.loop import Fit
from crowdwise.estimator.aggregator import Problem
from crowdwise.estimator.estimator import setting
from crowdwise.methods.labels.dawid_skene import IterativeAggregator
from crowdwise.parts.annotators.spammer import Spammer

__all__ = ["MACE"]


@dataclass(eq=False, repr=False, kw_only=True)
class MACE(IterativeAggregator):
    """Annotators who are honest with some probability and otherwise answer from a habit."""

    class_prior: Any = setting("uniform", 'Class shares: "uniform" (the paper\'s), "learn", or K probabilities.', free=True)
    honest: float = setting(0.5, "Beta parameter of honest votes.", above=0)
    spam: float = setting(0.5, "Beta parameter of spam votes.", above=0)
    habit: float = setting(10.0, "Dirichlet parameter of every answer in a spamming habit.", above=0)

    name: ClassVar[str] = "mace"

    def _fit(self, problem: Problem) -> Fit:
        crowd = problem.crowd
        honest = np.tile([self.honest, self.spam], (crowd.n_annotators, 1))
        habit = np.full((crowd.n_annotators, crowd.n_classes), self.habit)
        if problem.history is not None:
            # Earlier right answers count as honest, earlier wrong ones as spam of that label.
            right = np.einsum("akk->ak", problem.history)
            wrong = problem.history.sum(axis=2) - right
            honest = honest + np.column_stack([right.sum(axis=1), wrong.sum(axis=1)])
            habit = habit + wrong
        return self.alternate(problem, problem.marginals(), Spammer.start(honest, habit))
