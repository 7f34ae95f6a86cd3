"""Pooled Dawid-Skene: confusion matrices shrunk towards the crowd's own, fitted by EM.

Model      a vote of annotator a on an item of class k is l with probability pi_akl
Prior      row (a, k) has `strength` pseudo-votes, divided like row k of the crowd's matrix c_kl
E-step     log q_nk = log d_k + sum_e log pi[a_e, k, y_e] + const
M-step     pi_akl proportional to C_akl + strength c_kl,  C_akl = sum of q_nk over the votes l of annotator a

Symbols
-------
c_lk : [L, K]        P(observed l | true k) of all annotators together, under vote shares
prior_alk : [1, L, K]  pseudo-votes, the same for every annotator

Notes
-----
The crowd's matrix is counted once, under vote shares, and stays. Cost per iteration: O(E K).

References
----------
The skeleton of "Your first method in an hour"; an empirical-Bayes variant of Dawid and Skene (1979).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from crowdwise.engines.loop import Fit
from crowdwise.estimator.aggregator import Problem
from crowdwise.estimator.estimator import setting
from crowdwise.kernels.numerics import vote_shares
from crowdwise.methods.labels.dawid_skene import IterativeAggregator
from crowdwise.parts.annotators.model import Confusion, counts_of, weight_of

__all__ = ["PooledDawidSkene"]


@dataclass(eq=False, repr=False, kw_only=True)
class PooledDawidSkene(IterativeAggregator):
    """Dawid-Skene whose confusion rows are shrunk towards those of the whole crowd."""

    strength: float = setting(2.0, "Pseudo-votes of every confusion row, divided like the crowd's.", above=0)

    name: ClassVar[str] = "pooled-ds"

    def _fit(self, problem: Problem) -> Fit:
        votes = problem.votes
        shares = vote_shares(votes.item_ptr, votes.label, weight_of(votes), votes.n_classes)
        # Half a pseudo-vote per entry: an error that nobody has made yet is unlikely, not impossible.
        c_lk = counts_of(votes, shares).sum(axis=0) + 0.5
        prior_alk = self.strength * (c_lk / c_lk.sum(axis=0))[None]
        return self.alternate(problem, problem.marginals(), Confusion.start(prior_alk, votes.n_annotators))
