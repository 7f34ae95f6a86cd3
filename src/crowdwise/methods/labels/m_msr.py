"""M-MSR: one accuracy per annotator from agreements of pairs, when a minority of partners colludes.

Model      as for `pgd`: (K P(agree) - 1) / (K - 1) = s_a s_b for honest pairs; any other value for pairs
           with an adversary in them
Solver     s_a = trimmed mean over partners b of c_ab / s_b, the share `trim` of the weight cut at both
           ends, from signs by the leading eigenvector of sign(c) (`crowdwise.engines.rank_one`)

Notes
-----
The paper cuts the F largest and smallest values with one F for all, set by the smallest neighbourhood;
a share of the weight, fading where pairs met a few times only, suits neighbourhoods of any size. It also
works on absolute values and adds signs at the end; |c_ab| of pairs that met a few times is mostly
noise, and noise of one sign, so signs are kept here. Robust as
long as fewer than `trim` of everybody's partners are adversaries. `polish` is 0 here: EM believes that
errors are independent, so its steps would trust colluders again. Cost: O(pairs log pairs) per round.

References
----------
Ma and Olshevsky (2020), Adversarial crowdsourcing through robust rank-one matrix completion, NeurIPS.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from crowdwise.engines.loop import Fit
from crowdwise.engines.moments import Cooccurrence, Estimate
from crowdwise.engines.rank_one import orient, robust
from crowdwise.errors import SettingError
from crowdwise.estimator.aggregator import Problem
from crowdwise.estimator.estimator import setting
from crowdwise.methods.labels.moment import AccuracyMoments

__all__ = ["MMSR"]


@dataclass(eq=False, repr=False, kw_only=True)
class MMSR(AccuracyMoments):
    """One accuracy per annotator by robust rank-one completion; withstands a colluding minority."""

    polish: int = setting(0, "EM steps after the estimate; they undo its robustness to colluders.", low=0, whole=True)
    trim: float = setting(0.4, "Share of every annotator's partners cut at both ends; below 0.5.", low=0)

    name: ClassVar[str] = "m-msr"

    def _fit(self, problem: Problem) -> Fit:
        if self.trim >= 0.5:
            raise SettingError(f"MMSR: trim must be below 0.5; got {self.trim!r}")
        return super()._fit(problem)

    def _estimate(self, problem: Problem, moments: Cooccurrence) -> Estimate:
        n_classes = moments.n_classes
        agreement = (n_classes * moments.agreement() - 1) / (n_classes - 1)
        low = -1 / (n_classes - 1)
        s, rounds, settled = robust(
            moments.first, moments.second, agreement, moments.met_p, moments.n_annotators, self.trim, low, 1.0
        )
        s = np.maximum(orient(s, moments.component, moments.count_al.sum(axis=1)), low)
        return self._from_skill(moments, s, rounds, settled)

    def _rounds(self) -> int:
        return 5
