"""Dawid-Skene: a confusion matrix per annotator, fitted by EM.

Model      p(votes, z) = prod_n d[z_n] prod_{votes e on n} pi[a_e, z_n, y_e]
E-step     log q_nk = log d_k + sum_e log pi[a_e, k, y_e] + const
M-step     d_k = sum_n q_nk / N;  pi_akl proportional to C_akl + smoothing,
           C_akl = sum of q_nk over the votes l of annotator a

Symbols
-------
pi_akl : [A, K, L]   P(observed l | true k); the paper's pi^(k)_jl
q_nk : [N, K]        posterior of the true class; the paper's T_ij

Notes
-----
Starts from vote shares. Smoothing adds ``smoothing`` pseudo-votes per class to every row (see
`row_smoothing`); 0 gives the paper's maximum likelihood, the default one pseudo-vote per row in all.
Hard assignment is the fast variant of Sinha, Rao and Balasubramanian (2018). Cost per iteration: O(E K).

References
----------
Dawid and Skene (1979), Applied Statistics 28(1), 20-28.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from crowdwise.engines.loop import Fit
from crowdwise.estimator.aggregator import Problem
from crowdwise.estimator.estimator import setting
from crowdwise.methods.labels.iterative import IterativeAggregator
from crowdwise.parts.annotators.model import Confusion, row_smoothing

__all__ = ["ABOUT_SMOOTHING", "DawidSkene", "smoothed_confusion"]

ABOUT_SMOOTHING = "Pseudo-votes per class added to every confusion row; by default 1 / K. 0 is maximum likelihood."


@dataclass(eq=False, repr=False, kw_only=True)
class DawidSkene(IterativeAggregator):
    """Dawid-Skene (1979): a confusion matrix per annotator, fitted by EM.

    Examples
    --------
    >>> from crowdwise.data.datasets import dawid_skene_1979
    >>> model = DawidSkene(smoothing=0, tol=1e-8).fit(dawid_skene_1979())
    >>> model.prior_.round(3).tolist()
    [0.4, 0.422, 0.112, 0.067]
    """

    smoothing: float | None = setting(None, ABOUT_SMOOTHING, low=0, optional=True)
    hard: bool = setting(False, "Assign items to their best class between iterations (fast Dawid-Skene).")

    name: ClassVar[str] = "dawid-skene"

    def _fit(self, problem: Problem) -> Fit:
        return self.alternate(problem, problem.marginals(), smoothed_confusion(problem, self.smoothing), hard=self.hard)


def smoothed_confusion(problem: Problem, smoothing: float | None) -> Confusion:
    """Confusion matrices before any vote, with so many pseudo-votes per class in every row (None: 1 / K), and their history."""
    crowd = problem.crowd
    pseudo = row_smoothing(crowd, 1 / crowd.n_classes if smoothing is None else smoothing)
    if problem.history is not None:
        pseudo = pseudo + problem.history
    return Confusion.start(pseudo, crowd.n_annotators)
