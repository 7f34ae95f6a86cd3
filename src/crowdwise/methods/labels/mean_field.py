"""Mean field of Liu, Peng and Ihler: labels and annotators independent of each other, under any prior of annotators.

Model      z_n ~ d (fixed);  R_a ~ a prior over confusion matrices;  vote of a on n ~ R_a[z_n]
Updates    q(R_a) proportional to p(R_a) exp(sum_kl C_akl log R_a[k, l]): Beta or Dirichlet where the
           prior is, else weights on the prior's atoms
           log q_nk = log d_k + sum_e E log R[a_e, k, y_e] + const
Bound      sum_n logsumexp_k(...) - sum_a KL(q(R_a) || p(R_a)), the evidence lower bound

Notes
-----
The counterpart of `belief-propagation`, with the same families and priors (see
`crowdwise.parts.priors.abilities`) and at the price of one EM: with "confusion" it is `bayes-gc` with a
fixed class prior. Kim et al. find it overconfident where the prior is wrong and a spammer answers
everything: a spammer may be taken for an adversary. Starts from vote shares. Cost per iteration: O(E)
for one-coin, else O(E K).

References
----------
Liu, Peng and Ihler (2012), Variational inference for crowdsourcing, NIPS. Kim, Cho, Kim and Ok
(2022), Robust deep learning from crowds with belief propagation, AISTATS.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.engines.loop import Fit
from crowdwise.estimator.aggregator import Problem
from crowdwise.estimator.estimator import setting
from crowdwise.estimator.history import right_and_wrong
from crowdwise.kernels.types import Floats
from crowdwise.methods.labels.dawid_skene import IterativeAggregator
from crowdwise.parts.annotators.atoms import AtomMixture
from crowdwise.parts.annotators.beta import BetaAccuracy
from crowdwise.parts.annotators.model import AnnotatorModel, DirichletConfusion
from crowdwise.parts.priors.abilities import FAMILIES, ability_prior, expand_accuracy, node_rules

__all__ = ["MeanField"]


@dataclass(eq=False, repr=False, kw_only=True)
class MeanField(IterativeAggregator):
    """Variational Bayes with a fixed class prior, under any prior of annotators."""

    class_prior: Any = setting("uniform", 'Class shares: "uniform", "learn", or K probabilities.', free=True)
    family: str = setting("one-coin", "Annotators: one accuracy, one per true class, or full confusion rows.", choices=FAMILIES)
    annotator_prior: Any = setting(
        "beta:2,1",
        'Prior of annotators: "beta:R,W", "dirichlet:R,W", "spammer-hammer:SHARE[,ACCURACY]", or draws [S], [S, K], [S, K, K].',
        free=True,
    )
    annotator_weights: Any = setting(None, "Weights of the draws given as `annotator_prior`; equal by default.", free=True)

    name: ClassVar[str] = "mean-field"

    def _fit(self, problem: Problem) -> Fit:
        return self.alternate(problem, problem.marginals(), self._annotators(problem.votes, problem.history))

    def _annotators(self, votes: Annotations, history: Floats | None) -> AnnotatorModel:
        """The model before any vote of these."""
        n_annotators, n_classes = votes.n_annotators, votes.n_classes
        prior = ability_prior(self.annotator_prior, self.annotator_weights, n_classes)
        if prior.atoms is not None:
            (rule,), _ = node_rules(prior, self.family, n_classes, np.zeros(0), "auto", None, np.random.default_rng(0))
            table = rule.node if rule.node.ndim == 3 else expand_accuracy(rule.node[:, None], n_classes)
            return AtomMixture.start(table, rule.log_weight, history, n_annotators)
        if self.family == "confusion":
            rows = prior.row_parameters(n_classes)[None]
            return DirichletConfusion.start(rows if history is None else rows + history, n_annotators)
        earlier = right_and_wrong(history, n_annotators, n_classes)
        right, wrong = (part.sum(axis=1, keepdims=True) if self.family == "one-coin" else part for part in earlier)
        return BetaAccuracy.start(np.stack([right + prior.right, wrong + prior.wrong], axis=2), n_classes)
