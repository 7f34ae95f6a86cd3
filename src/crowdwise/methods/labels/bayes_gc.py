"""BayesGC: Dawid-Skene with Dirichlet posteriors, by variational Bayes (also known as IBCC, VB-DS).

Model      d ~ Dir(alpha);  pi_ak ~ Dir(beta0_k);  z_n ~ d;  vote of a on n ~ pi[a, z_n]
Updates    alpha = alpha0 + sum_n q_n;  beta_akl = beta0_kl + C_akl
           log q_nk = E log d_k + sum_e E log pi[a_e, k, y_e] + const
Bound      sum_n logsumexp_k(...) - KL(d) - sum_ak KL(pi_ak)

Notes
-----
Defaults are the paper's, whose tasks are binary: alpha0 = 1.1, 5 on the diagonal, 2 beside it. With
more classes the 2 is spread over the K - 1 wrong answers, so that the prior expects the same accuracy
(5 / 7) for any K; 2 for each would expect 2.5 % at K = 100. `off_diagonal` overrides it. Confusion
matrices are reported as posterior means; `result_.concentration` holds the Dirichlet parameters and
`result_.confusion_sd` their standard deviations. Cost per iteration: O(E K).

References
----------
Li, Huang and Chen: Crowdsourcing aggregation with deep Bayesian learning (BayesGC is its
annotation-only model). Kim and Ghahramani (2012): Bayesian classifier combination (IBCC).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from crowdwise.engines.loop import Fit, LabelPrior
from crowdwise.estimator.aggregator import Problem
from crowdwise.estimator.estimator import setting
from crowdwise.kernels.types import Floats
from crowdwise.methods.labels.dawid_skene import IterativeAggregator
from crowdwise.parts.annotators.model import DirichletConfusion
from crowdwise.parts.priors.marginals import DirichletMarginals

__all__ = ["BayesGC"]


@dataclass(eq=False, repr=False, kw_only=True)
class BayesGC(IterativeAggregator):
    """Variational Bayesian Dawid-Skene: Dirichlet posteriors over confusion matrices and class shares."""

    alpha0: float = setting(1.1, "Dirichlet parameter of every class share.", above=0)
    diagonal: float = setting(5.0, "Dirichlet parameter of a right answer.", above=0)
    off_diagonal: float | None = setting(
        None, "Dirichlet parameter of each wrong answer; by default 2 / (K - 1).", above=0, optional=True
    )

    name: ClassVar[str] = "bayes-gc"

    def _fit(self, problem: Problem) -> Fit:
        crowd = problem.crowd
        prior_alk = self.row_prior(crowd.n_classes)[None]
        if problem.history is not None:
            prior_alk = prior_alk + problem.history
        marginals: LabelPrior = problem.marginals()
        if problem.class_prior is None and problem.anchor is None:
            alpha0 = np.full(crowd.n_classes, self.alpha0)
            marginals = DirichletMarginals(alpha0, alpha0)
        return self.alternate(problem, marginals, DirichletConfusion.start(prior_alk, crowd.n_annotators))

    def row_prior(self, n_classes: int) -> Floats:
        """Dirichlet parameters of a confusion matrix before any vote, [L, K]."""
        wrong = 2 / max(n_classes - 1, 1) if self.off_diagonal is None else self.off_diagonal
        return np.where(np.eye(n_classes, dtype=bool), self.diagonal, wrong)
