"""Worker clustering: annotators of a cluster share one confusion matrix.

Model      a in cluster j w.p. tau_j;  z_n ~ d;  vote of a on n ~ pi[j(a), z_n]
Updates    rho_aj proportional to tau_j exp(sum_kl C_akl log pi_jkl);  pi_jkl proportional to sum_a rho_aj C_akl + smoothing
           log q_nk = log d_k + sum_e sum_j rho[a_e, j] log pi[j, k, y_e] + const
Bound      sum_n logsumexp_k(...) - sum_a KL(rho_a || tau) + smoothing sum log pi

Symbols
-------
rho_aj : [A, J]      memberships;  pi_jlk : [J, L, K] matrices of clusters;  C_akl : expected counts

Notes
-----
J K^2 numbers instead of A K^2: for campaigns in which each annotator gives few votes. Memberships stay soft. Starts
from k-means on confusion rows under the labels of the one-cluster fit (see `staged`). `clusters` is 5, or "evidence": the J
from 1 to 8 with the highest bound less 1/2 J K (K - 1) log(votes), a BIC. Cost per iteration: O(E K + A J K^2).

References
----------
Imamura, Sato and Sugiyama (2018), Analysis of minimax error rate for crowdsourcing and its application to
worker clustering model, ICML.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from crowdwise.engines.loop import Fit
from crowdwise.errors import SettingError
from crowdwise.estimator.aggregator import Problem
from crowdwise.estimator.estimator import setting
from crowdwise.methods.labels.dawid_skene import IterativeAggregator
from crowdwise.methods.labels.staged import fit_in_stages, most_groups
from crowdwise.parts.annotators.clusters import ClusterConfusion

__all__ = ["WorkerCluster"]

_MOST_CLUSTERS = 8


@dataclass(eq=False, repr=False, kw_only=True)
class WorkerCluster(IterativeAggregator):
    """Clusters of annotators, each with one confusion matrix and soft memberships."""

    clusters: Any = setting(
        5, 'Clusters of annotators, or "evidence" to choose 1 to 8 of them by a BIC.', choices=("evidence",), free=True
    )
    smoothing: float = setting(0.1, "Pseudo-votes added to every entry of a cluster's confusion matrix.", low=0)

    name: ClassVar[str] = "worker-cluster"

    def _fit(self, problem: Problem) -> Fit:
        if self.clusters == "evidence":
            return self._best_by_evidence(problem)
        wanted = self.clusters
        if isinstance(wanted, bool) or not isinstance(wanted, int | np.integer) or wanted < 1:
            raise SettingError(f"WorkerCluster: clusters must be a whole number of at least 1 or 'evidence'; got {wanted!r}")
        return self._fit_with(problem, most_groups(problem, int(wanted)))

    def _fit_with(self, problem: Problem, groups: int) -> Fit:
        votes = problem.votes
        earlier = problem.history
        if earlier is None:
            earlier = np.zeros((votes.n_annotators, votes.n_classes, votes.n_classes))
        return fit_in_stages(self, problem, lambda j: ClusterConfusion.start(earlier, j, self.smoothing), groups)

    def _best_by_evidence(self, problem: Problem) -> Fit:
        votes = problem.votes
        total = votes.total_weight
        price = 0.5 * votes.n_classes * (votes.n_classes - 1) * np.log(max(total, 1.0))
        quiet = replace(problem, progress=None)
        fits = {j: self._fit_with(quiet, j) for j in range(1, most_groups(problem, _MOST_CLUSTERS) + 1)}
        best = max(fits, key=lambda j: fits[j].bound - price * j)
        return fits[best]
