"""MultiSPA: rows of confusion matrices as the corners of co-occurrence columns.

Model      the columns of M_ab = R_a' D R_b, scaled to sum to one, are mixtures of the rows of R_a; a
           label that b uses for one class only gives that row itself
Solver     per annotator, K times: pick the column of largest norm, project it out of the others. Rows
           come out in unknown order; they are aligned across annotators and named by the vote
           (`crowdwise.engines.permutation`); class shares fit the first moments by least squares

Notes
-----
Exact if for every class somebody else uses some label for that class only (a "class expert"); with
many annotators approximate experts are likely for few classes and unlikely for many. Departures from
the paper: thin columns are pooled over partners that use the label with like purity until they hold
max(20, 5 K) meetings; a pick is the mean of those of its five nearest columns that lie within sampling
error; shares come from first moments rather than from inverses of pairs, which are unstable for
spammers. The cheapest moment method: one pass over the co-occurrences.

References
----------
Ibrahim, Fu, Kargas and Huang (2019), Crowdsourcing via pairwise co-occurrences, NeurIPS.
Gillis and Vavasis (2014): successive projection under noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from crowdwise.engines.moments import Cooccurrence, Estimate
from crowdwise.engines.separable import multi_spa
from crowdwise.estimator.aggregator import Problem
from crowdwise.estimator.estimator import setting
from crowdwise.methods.labels.moment import ConfusionMoments

__all__ = ["MultiSPA"]


@dataclass(eq=False, repr=False, kw_only=True)
class MultiSPA(ConfusionMoments):
    """Confusion matrices by successive projection on pairwise co-occurrences."""

    nearest: int = setting(5, "Columns averaged into every picked corner, where they agree with it.", low=1, whole=True)

    name: ClassVar[str] = "multi-spa"

    def _estimate(self, problem: Problem, moments: Cooccurrence) -> Estimate | None:
        found = multi_spa(moments, self.nearest)
        return self._named(problem, moments, found) if found.seen.any() else None

    def _rounds(self) -> int:
        return 5
