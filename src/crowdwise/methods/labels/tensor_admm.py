"""TensorADMM: coupled tensor factorisation of pairs and sampled triples of annotators.

Model      M_ab = R_a' D R_b;  T_abc[i, j, l] = sum_k d_k R_a[k, i] R_b[k, j] R_c[k, l]
Objective  least squares over all pairs and sampled triples, weighted by meetings, with confusion rows
           and class shares on the simplex
Solver     alternating over annotators and shares, each a small quadratic program by ADMM
           (`crowdwise.engines.coupled`), from the likelier of the starts of `cnmf` and `spectral-ds`

Notes
-----
With third moments three annotators of full rank suffice for uniqueness: no class experts are needed.
But a tensor has K^3 entries, so triples enter only if they met `K` times per class on average, and at
most `triples` per annotator are used (all of them would cost A^3 K^3); without any, the fit rests on
pairs. The paper updates annotators one after the other; here all take half a step at once, which runs
as a few array operations. Cost per round: O(cells K + pairs K^2 + triples K^4).

References
----------
Traganitis, Pages-Zamora and Giannakis (2018), Blind multiclass ensemble classification, IEEE TSP.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from crowdwise.engines.composite import best_start
from crowdwise.engines.coupled import coupled_estimate
from crowdwise.engines.moments import Cooccurrence, Estimate
from crowdwise.engines.spectral import spectral_estimate
from crowdwise.engines.triples import Triples, sample_triples
from crowdwise.estimator.aggregator import Problem
from crowdwise.estimator.estimator import random_state_setting, setting
from crowdwise.methods.labels.moment import ConfusionMoments

__all__ = ["TensorADMM"]

# Dense tensors of all sampled triples: at most this many numbers.
_MOST_ENTRIES = 2e7


@dataclass(eq=False, repr=False, kw_only=True)
class TensorADMM(ConfusionMoments):
    """Confusion matrices by coupled tensor factorisation with simplex constraints."""

    triples: int = setting(20, "Sampled triples per annotator; 0 uses pairs only.", low=0, whole=True)
    max_iter: int = setting(100, "Most rounds over annotators and class shares.", low=1, whole=True)
    tol: float = setting(1e-6, "Stop when no probability changes by more than this.", above=0)
    random_state: int | None = random_state_setting("Seed of the sampled triples.")

    name: ClassVar[str] = "tensor-admm"

    def _estimate(self, problem: Problem, moments: Cooccurrence) -> Estimate:
        n_classes = moments.n_classes
        most = min(self.triples, int(3 * _MOST_ENTRIES / n_classes**3 / max(moments.n_annotators, 1)))
        met = moments.between(moments.met_p)
        triples = sample_triples(problem.votes, problem.rng, most, float(n_classes**2), met)
        if len(triples.ends) == 0:
            triples = Triples(np.empty((0, 3), np.int64), np.empty((0, n_classes, n_classes, n_classes)))
        return coupled_estimate(moments, triples, self._start(problem, moments), self.max_iter, self.tol)

    def _start(self, problem: Problem, moments: Cooccurrence) -> Estimate:
        """The likelier of a start from pairs and one from third moments, both named by the vote."""
        start = self._named(problem, moments, best_start(moments))
        third = spectral_estimate(problem.votes, problem.rng)
        if third is None:
            return start
        third = self._named(problem, moments, third)
        both = np.where(third.seen[:, None, None], third.annotators, start.annotators)
        third = replace(third, annotators=both, seen=start.seen)
        return max(start, third, key=lambda one: self._evidence(problem, one))

    def _rounds(self) -> int:
        return 2 * self.max_iter
