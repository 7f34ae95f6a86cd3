"""Group-aware Dawid-Skene: annotators of a group share errors; fitted by exact EM on the tree.

Model      p(votes, z, c) = prod_n d[z_n] prod_j Xi_j[z_n, c_nj] prod_{votes e on n} pi[a_e, c_n(group of a_e), y_e]
E-step     lambda_nj(c) = prod of pi over the group's votes;  mu_nj(k) = sum_c Xi_j[k, c] lambda_nj(c)
           log q_nk = log d_k + sum_j log mu_nj(k) + const;  q(z = k, c = c) = q_nk Xi_j[k, c] lambda_nj(c) / mu_nj(k)
M-step     d, Xi and pi from expected counts plus pseudo-counts

Symbols
-------
Xi_jkc : [J, K, C]   P(group j sees c | true k); the tutorial's Xi^(j), transposed
pi_alc : [A, L, C]   P(observed l | group saw c); the tutorial's A~_m
q_nk : [N, K]        posterior of the true class

Notes
-----
Annotators without a group have Xi fixed at the identity, so without groups this is `dawid-skene`.
A group of two does not identify Xi (any invertible mix of Xi and pi gives the same votes); the
Dirichlet(5, 1) prior on its rows keeps it near the identity. ``groups="auto"`` finds groups in the votes
before any fit (`crowdwise.engines.readings`): a fit that followed a group has explained its errors away. EM
starts from one voice per group for the same reason. `confusion_` is the product Xi pi: P(observed | true).
Cost per iteration: O(E K + P K^2) for P pairs of an item and a group.

References
----------
ICASSP 2025 tutorial on learning from crowdsourced labels, "DS model for dependent classifiers", after
Jaffe et al. (2016) and Traganitis and Giannakis (2022).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from crowdwise.engines.independence import LEVEL
from crowdwise.engines.loop import ABOUT_TOL, Fit
from crowdwise.estimator.aggregator import Problem
from crowdwise.estimator.estimator import setting
from crowdwise.methods.labels.dawid_skene import IterativeAggregator
from crowdwise.methods.labels.grouping import ABOUT_GROUPS, ABOUT_LEVEL, groups_of, shares_of_groups
from crowdwise.parts.annotators.groups import GroupConfusion
from crowdwise.parts.annotators.model import row_smoothing

__all__ = ["GroupDawidSkene"]


@dataclass(eq=False, repr=False, kw_only=True)
class GroupDawidSkene(IterativeAggregator):
    """Dawid-Skene for annotators who depend on each other: votes of a group count once, not once each.

    Examples
    --------
    >>> votes = {"item": [1, 1, 1, 2, 2, 2], "annotator": ["x", "y", "z"] * 2, "label": ["a", "a", "a", "b", "b", "b"]}
    >>> GroupDawidSkene(groups={"x": "team", "y": "team"}).fit(votes).labels_.tolist()
    ['a', 'b']
    """

    groups: Any = setting("auto", ABOUT_GROUPS, choices=("auto",), free=True)
    level: float = setting(LEVEL, ABOUT_LEVEL, above=0)
    max_iter: int = setting(500, "Most iterations of one run.", low=1, whole=True)
    tol: float = setting(1e-5, ABOUT_TOL, above=0)
    diagonal: float = setting(5.0, "Dirichlet parameter of a group seeing the true class (5/1: near the identity).", low=1)
    off_diagonal: float = setting(1.0, "Dirichlet parameter of a group seeing each other class.", low=1)
    smoothing: float | None = setting(
        None,
        "Pseudo-votes per class added to every confusion row; by default 1 / K. 0 is maximum likelihood.",
        low=0,
        optional=True,
    )

    name: ClassVar[str] = "group-dawid-skene"

    def _fit(self, problem: Problem) -> Fit:
        votes, n_classes = problem.votes, problem.votes.n_classes
        pseudo = row_smoothing(votes, 1 / n_classes if self.smoothing is None else self.smoothing)
        if problem.history is not None:
            pseudo = pseudo + problem.history
        # A Dirichlet(alpha) prior adds alpha - 1 pseudo-counts to a MAP step.
        prior_kc = np.full((n_classes, n_classes), self.off_diagonal - 1)
        np.fill_diagonal(prior_kc, self.diagonal - 1)
        group_a = groups_of(votes, self.groups, self.level)
        model = GroupConfusion.start(pseudo, prior_kc, group_a)
        shares = shares_of_groups(votes, group_a) if (group_a >= 0).any() else None
        return self.alternate(problem, problem.marginals(), model, shares=shares)
