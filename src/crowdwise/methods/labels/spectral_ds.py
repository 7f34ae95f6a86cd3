"""Spectral Dawid-Skene: third moments of three groups of annotators, then EM.

Model      x_g, the mean one-hot vote of group g: E[x_1 (x) x_2 (x) x_3] = sum_k d_k C_1k (x) C_2k (x) C_3k
Solver     make groups one and two look like the third, whiten the second moment, diagonalise the
           slices of the third jointly; each annotator by regression on a group it is not in
           (`crowdwise.engines.spectral`)

Notes
-----
The paper finds components by power iterations from 100 random starts with deflation; joint
diagonalisation by Jacobi rotations needs neither and uses all slices at once. Group means over items on
which all groups voted take the place of group sums, so that sparse designs do not scale the moments.
Annotators are dealt to groups in order of their votes; a degenerate split (a group whose summed
confusion is near singular) is redrawn up to five times. Needs about K^2 items with votes in all three
groups. Cost: O(E) for the moments plus O(K^4) per sweep.

References
----------
Zhang, Chen, Zhou and Jordan (2014), Spectral methods meet EM: a provably optimal algorithm for
crowdsourcing, NeurIPS; JMLR 17 (2016). Cardoso and Souloumiac (1996): Jacobi angles.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from crowdwise.engines.moments import Cooccurrence, Estimate
from crowdwise.engines.spectral import spectral_estimate
from crowdwise.estimator.aggregator import Problem
from crowdwise.estimator.estimator import random_state_setting
from crowdwise.methods.labels.moment import ConfusionMoments

__all__ = ["SpectralDS"]


@dataclass(eq=False, repr=False, kw_only=True)
class SpectralDS(ConfusionMoments):
    """Confusion matrices by third moments of three groups of annotators, polished by EM."""

    random_state: int | None = random_state_setting("Seed of redrawn groups.")

    name: ClassVar[str] = "spectral-ds"

    def _estimate(self, problem: Problem, moments: Cooccurrence) -> Estimate | None:
        found = spectral_estimate(problem.votes, problem.rng)
        return None if found is None else self._named(problem, moments, found)

    def _rounds(self) -> int:
        return 5
