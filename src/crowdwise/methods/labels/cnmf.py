"""CNMF: coupled non-negative factorisation of all pairwise co-occurrences.

Model      M_ab = R_a' D R_b for every pair of annotators that met
Objective  max sum_{a<b} sum_ij C_ab[i, j] log sum_k d_k R_a[k, i] R_b[k, j]
           = min sum N_ab KL(M_ab || R_a' D R_b) over confusion rows and class shares
Solver     its EM, in closed form (see `crowdwise.engines.composite`), from the better of two starts:
           successive projection, and the labels of the others taken for the truth

Notes
-----
The paper minimises the same divergence with equal weights per pair by an alternating solver; weighting
pairs by their meetings makes it a composite likelihood with closed-form EM steps that never get worse,
and lets pairs that met twice say only as much as two meetings can. Identifiable if the stacked rows are
sufficiently scattered, which many diverse annotators make likely; without it, EM stays near its start.
Needs only pairs: three annotators per item are not required. Cost per step: O(cells K), where cells
<= sum over items of (votes on it)^2 / 2; independent of the number of items afterwards.

References
----------
Ibrahim, Fu, Kargas and Huang (2019), Crowdsourcing via pairwise co-occurrences, NeurIPS.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from crowdwise.engines.composite import best_start, composite_em
from crowdwise.engines.moments import Cooccurrence, Estimate
from crowdwise.estimator.aggregator import Problem
from crowdwise.estimator.estimator import setting
from crowdwise.methods.labels.moment import ConfusionMoments

__all__ = ["CNMF"]


@dataclass(eq=False, repr=False, kw_only=True)
class CNMF(ConfusionMoments):
    """Confusion matrices by coupled non-negative factorisation of pairwise co-occurrences."""

    max_iter: int = setting(100, "Most EM steps on the pairwise moments.", low=1, whole=True)
    tol: float = setting(1e-8, "Stop when the log-likelihood of a meeting gains less than this.", above=0)

    name: ClassVar[str] = "cnmf"

    def _estimate(self, problem: Problem, moments: Cooccurrence) -> Estimate:
        start = best_start(moments)
        table, shares, trace, settled = composite_em(
            moments, start.annotators.reshape(-1, moments.n_classes), start.shares, self.max_iter, self.tol
        )
        shape = start.annotators.shape
        return self._named(problem, moments, replace(start, annotators=table.reshape(shape), shares=shares,
                                                     n_iter=len(trace), converged=settled))  # fmt: skip

    def _rounds(self) -> int:
        return self.max_iter + 40
