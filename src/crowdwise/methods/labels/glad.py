"""GLAD: annotators of different ability, items of different difficulty.

Model      P(vote = label) = sigmoid(a_a exp(b_n)), wrong answers uniform over K - 1 classes
Priors     a ~ N(1, 1), b ~ N(1, 1); the label prior is uniform in the paper
E-step     a vote adds a_a exp(b_n) + log(K - 1) to the class it names
M-step     safeguarded Newton steps; see `crowdwise.parts.annotators.difficulty`

Notes
-----
The paper is binary; wrong answers spread evenly give any K. An item with one vote has an easiness
known by its prior only. Stopping as in crowd-kit: 100 rounds, 1e-5. `class_prior` defaults to "uniform"
as published. `result_.annotators` holds `ability` [A] and `log_easiness` [N]. Cost per iteration: O(E).

References
----------
Whitehill, Ruvolo, Wu, Bergsma and Movellan (2009), Whose vote should count more, NeurIPS.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from crowdwise.engines.loop import ABOUT_TOL, Fit
from crowdwise.estimator.aggregator import Problem
from crowdwise.estimator.estimator import setting
from crowdwise.estimator.history import right_and_wrong_in_all
from crowdwise.methods.labels.dawid_skene import IterativeAggregator
from crowdwise.parts.annotators.difficulty import AbilityDifficulty

__all__ = ["GLAD"]


@dataclass(eq=False, repr=False, kw_only=True)
class GLAD(IterativeAggregator):
    """Ability of annotators times easiness of items, for any number of classes."""

    class_prior: Any = setting("uniform", 'Class shares: "uniform" (the paper\'s), "learn", or K probabilities.', free=True)
    max_iter: int = setting(100, "Most iterations of one run.", low=1, whole=True)
    tol: float = setting(1e-5, ABOUT_TOL, above=0)

    name: ClassVar[str] = "glad"

    def _fit(self, problem: Problem) -> Fit:
        votes = problem.votes
        right, wrong = right_and_wrong_in_all(problem.history, votes.n_annotators, votes.n_classes)
        model = AbilityDifficulty.start(right, wrong, votes.n_items, votes.n_classes)
        return self.alternate(problem, problem.marginals(), model)
