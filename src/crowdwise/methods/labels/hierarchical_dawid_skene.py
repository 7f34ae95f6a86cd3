"""Hierarchical Dawid-Skene: a matrix per annotator, scattered around attention, a shared matrix and a habit.

Model      pi_ak ~ Dirichlet(s_k mu_ak),  mu_akl = theta_a B_kl + (1 - theta_a) xi_al; votes as in Dawid-Skene
Posterior  pi by variational Bayes; theta, B, xi and s by fixed points (see `crowdwise.parts.annotators.habits`)

Symbols
-------
theta_a : [A]    how often annotator a attends
xi_al : [A, L]   what a answers otherwise
B_kl : [K, L]    how those who attend confuse the classes of this task
s_k : [K]        how close own rows are to that, in votes

Notes
-----
An annotator with few votes is judged by theta alone, one with many by a full matrix, and how fast one turns into the other is
learned. Class shares stay near those of the votes by default: learned freely, a rare class turns into "hard items". Cost per
iteration: O(E K + A K^2).

References
----------
Kim and Ghahramani (2012), Bayesian classifier combination; Hovy et al. (2013), MACE; Minka (2000), Estimating a Dirichlet
distribution.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from crowdwise.engines.loop import Fit
from crowdwise.estimator.aggregator import Problem
from crowdwise.estimator.estimator import setting
from crowdwise.methods.labels.dawid_skene import IterativeAggregator
from crowdwise.parts.annotators.habits import Habits

__all__ = ["HierarchicalDawidSkene"]


@dataclass(eq=False, repr=False, kw_only=True)
class HierarchicalDawidSkene(IterativeAggregator):
    """A confusion matrix per annotator, shrunk towards attention, a shared matrix and a habit."""

    class_prior: Any = setting(
        "anchored",
        'Class shares: "anchored" (learned, but near the shares of the votes), "learn" freely, "uniform", or K probabilities.',
        free=True,
    )

    name: ClassVar[str] = "hierarchical-dawid-skene"

    def _fit(self, problem: Problem) -> Fit:
        crowd = problem.crowd
        earlier = np.zeros((1, crowd.n_classes, crowd.n_classes)) if problem.history is None else problem.history
        annotators = Habits.start(np.asarray(crowd.answers) + earlier.sum(axis=2), earlier)
        return self.alternate(problem, problem.marginals(), annotators)
