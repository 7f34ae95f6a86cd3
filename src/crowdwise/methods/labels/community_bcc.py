"""CommunityBCC: annotators belong to communities whose confusion rows resemble each other.

Model      a in community m w.p. h_m;  R_a[k] ~ Dir(eta_m[k]);  z_n ~ d;  vote of a on n ~ R[a, z_n]
Updates    rho_am proportional to h_m prod_k DM(C_a[k] | eta_m[k]);  q(R_a | m) = Dir(eta_m + C_a)
           eta_m by Minka's fixed point weighted by rho;  log q_nk = log d_k + sum_e E log R[a_e, k, y_e] + const
Bound      sum_n logsumexp_k(...) - KL(memberships) - KL(rows) + log prior of eta

Notes
-----
The paper draws the scores of a softmax around those of a community and passes messages; here rows are Dirichlet
and everything is conjugate, with the same effect: an annotator with few votes is judged by its community, one
with many by its own votes. Confusion rows stay tied to the community in the posterior (a mixture of
Dirichlets), which is exact given the labels. eta has a Gamma prior with mode `diagonal` / `off_diagonal` and weight
`trust`, so a community without members keeps a sensible matrix. Starts from k-means on confusion rows under the
labels of the one-community fit (see `staged`). The paper finds 3 to 10 communities enough; the default is 4.
Cost per iteration: O(E K + A M K^2).

References
----------
Venanzi, Guiver, Kazai, Kohli and Shokouhi (2014), Community-based Bayesian aggregation models for
crowdsourcing, WWW.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from crowdwise.engines.loop import Fit
from crowdwise.estimator.aggregator import Problem
from crowdwise.estimator.estimator import setting
from crowdwise.methods.labels.dawid_skene import IterativeAggregator
from crowdwise.methods.labels.staged import fit_in_stages, most_groups
from crowdwise.parts.annotators.communities import CommunityConfusion

__all__ = ["CommunityBCC"]


@dataclass(eq=False, repr=False, kw_only=True)
class CommunityBCC(IterativeAggregator):
    """Communities of annotators: those with few votes are judged by their community."""

    communities: int = setting(4, "Communities of annotators.", low=1, whole=True)
    diagonal: float = setting(4.0, "Where a community's Dirichlet parameter of a right answer starts.", above=0)
    off_diagonal: float = setting(1.0, "The same of all wrong answers together.", above=0)
    trust: float = setting(1.0, "Weight of the prior of the communities, in annotators.", above=0)

    name: ClassVar[str] = "cbcc"

    def _fit(self, problem: Problem) -> Fit:
        votes = problem.votes
        n_classes = votes.n_classes
        earlier = problem.history
        if earlier is None:
            earlier = np.zeros((votes.n_annotators, n_classes, n_classes))
        wrong = self.off_diagonal / max(n_classes - 1, 1)
        eta0 = np.where(np.eye(n_classes, dtype=bool), self.diagonal, wrong)
        return fit_in_stages(
            self,
            problem,
            lambda m: CommunityConfusion.start(earlier, eta0, m, self.trust),
            most_groups(problem, self.communities),
        )
