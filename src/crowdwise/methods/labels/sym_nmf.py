"""SymNMF: symmetric non-negative factorisation of the matrix of all pairwise moments.

Model      X = [M_ab] = H H' with H_a = R_a' D^(1/2) >= 0
Solver     impute the diagonal blocks and the pairs that never met (fill from the rank-K fit, take the
           leading eigenpairs, repeat), then rotate the eigenvectors into the non-negative orthant by
           turns of clipping and Procrustes (`crowdwise.engines.symmetric`); class shares fit the first
           moments by least squares

Notes
-----
Identifiable if the rows of H are sufficiently scattered. The paper imputes blocks through chains of
three observed ones; iterated low-rank completion needs no choice of chains and weights blocks by their
meetings. Rotation starts from the better start of `cnmf` rather than from random ones: this also fixes
the order of classes. Cost per round: O(cells K + pairs K^2).

References
----------
Ibrahim and Fu (2021), Crowdsourcing via annotator co-occurrence imputation and provable symmetric
nonnegative matrix factorization, ICML.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from crowdwise.engines.composite import best_start
from crowdwise.engines.moments import Cooccurrence, Estimate
from crowdwise.engines.symmetric import symmetric_estimate
from crowdwise.estimator.aggregator import Problem
from crowdwise.estimator.estimator import setting
from crowdwise.methods.labels.moment import ConfusionMoments

__all__ = ["SymNMF"]


@dataclass(eq=False, repr=False, kw_only=True)
class SymNMF(ConfusionMoments):
    """Confusion matrices by symmetric non-negative factorisation of the completed moment matrix."""

    max_iter: int = setting(100, "Most rounds of imputation.", low=1, whole=True)
    tol: float = setting(1e-9, "Stop when no eigenvalue changes by more than this share of the largest.", above=0)

    name: ClassVar[str] = "sym-nmf"

    def _estimate(self, problem: Problem, moments: Cooccurrence) -> Estimate:
        found = symmetric_estimate(moments, best_start(moments), self.max_iter, self.tol)
        return self._named(problem, moments, found)

    def _rounds(self) -> int:
        return 2 * self.max_iter
