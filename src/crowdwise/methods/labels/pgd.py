"""PGD: one accuracy per annotator by matching how often pairs agree.

Model      one-coin annotators; s_a = (K w_a - 1) / (K - 1) is 0 at chance and 1 for the infallible, and
           (K P(a and b agree) - 1) / (K - 1) = s_a s_b for any class shares
Solver     min_s sum_ab N_ab (c_ab - s_a s_b)^2, -1 / (K - 1) <= s <= 1, by coordinate updates
           s_a = sum_b N_ab c_ab s_b / sum_b N_ab s_b^2 (`crowdwise.engines.rank_one`)

Notes
-----
The name is that of the paper's projected gradient descent; coordinate updates reach the same fixed
points without a step size. Identifiable up to one sign per connected component of annotators if the
component is not bipartite; the sign makes annotators right more often than not. Class shares default
to uniform, as for `one-coin`. Cost: O(pairs) per round.

References
----------
Ma, Olshevsky, Szepesvari and Saligrama (2018), Gradient descent for sparse rank-one matrix completion
for crowd-sourced aggregation of sparsely interacting workers, ICML. Ghosh, Kale and McAfee (2011);
Dalvi, Dasgupta, Kumar and Rastogi (2013).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from crowdwise.engines.moments import Cooccurrence, Estimate
from crowdwise.engines.rank_one import least_squares, orient
from crowdwise.estimator.aggregator import Problem
from crowdwise.methods.labels.moment import AccuracyMoments

__all__ = ["PGD"]


@dataclass(eq=False, repr=False, kw_only=True)
class PGD(AccuracyMoments):
    """One accuracy per annotator from the agreement of pairs, by least squares."""

    name: ClassVar[str] = "pgd"

    def _estimate(self, problem: Problem, moments: Cooccurrence) -> Estimate:
        n_classes = moments.n_classes
        agreement = (n_classes * moments.agreement() - 1) / (n_classes - 1)
        s, rounds, settled = least_squares(
            moments.first, moments.second, agreement, moments.met_p, moments.n_annotators, -1 / (n_classes - 1), 1.0
        )
        return self._from_skill(moments, orient(s, moments.component, moments.count_al.sum(axis=1)), rounds, settled)

    def _rounds(self) -> int:
        return 5
