"""Ordinal by binary reduction: for every class j but the last, "is it above j?" as votes of two classes.

1. For j = 0 .. K - 2: Dawid-Skene on the answers 1[vote > j], a sensitivity and a specificity per annotator.
2. P(above j) made to fall with j;  P(class k) = P(above k - 1) - P(above k).

Notes
-----
2 (K - 1) numbers per annotator. Each question uses every vote, and an error by one class is wrong in one question only, so
near misses cost less than far ones. The questions are fitted apart and know nothing of each other, which costs accuracy where
`cumulative-link` fits. There is no common bound, hence no trace. Cost: K - 1 fits of two classes.

References
----------
Frank and Hall (2001), A simple approach to ordinal classification, ECML; Raykar et al. (2010), JMLR 11, section 4.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from crowdwise.engines.loop import ABOUT_TOL, Fit
from crowdwise.estimator.aggregator import Aggregator, Problem
from crowdwise.estimator.estimator import setting
from crowdwise.methods.labels.dawid_skene import DawidSkene
from crowdwise.parts.annotators.targets import BinaryTargets, above_each, of_classes, question
from crowdwise.parts.priors.marginals import Marginals

__all__ = ["OrdinalBinary"]


@dataclass(eq=False, repr=False, kw_only=True)
class OrdinalBinary(Aggregator):
    """A two-class Dawid-Skene for each border between ordered classes."""

    max_iter: int = setting(1000, "Most iterations for one border.", low=1, whole=True)
    tol: float = setting(1e-8, ABOUT_TOL, above=0)
    smoothing: float = setting(0.5, "Pseudo-votes per answer added to every row of an annotator's two-class matrix.", low=0)

    name: ClassVar[str] = "ordinal-binary"

    def _fit(self, problem: Problem) -> Fit:
        votes = problem.votes
        n_thresholds = votes.n_classes - 1
        fits = [self._border(problem, j) for j in range(n_thresholds)]
        shape = (votes.n_annotators, n_thresholds, 2, 2)
        prior, pi = np.zeros(shape), np.zeros(shape)
        pooled, above = np.zeros(shape[1:]), np.zeros(n_thresholds)
        for j, fit in enumerate(fits):
            prior[:, j], pi[:, j], pooled[j] = fit.annotators.prior_alk, fit.annotators.pi_alk, fit.annotators.pooled_lk
            above[j] = fit.prior.probability[1]
        share = of_classes(above) if problem.class_prior is None else problem.class_prior
        marginals = Marginals(share, learn=problem.class_prior is None)
        annotators = BinaryTargets(prior, pi, pooled, share)
        posterior = np.zeros((votes.n_items, votes.n_classes))
        annotators.infer(votes, marginals.log_prob(), problem.known, posterior)
        n_iter = max((fit.n_iter for fit in fits), default=1)
        return Fit(posterior, marginals, annotators, {}, n_iter, all(fit.converged for fit in fits))

    def _border(self, problem: Problem, j: int) -> Fit:
        """Dawid-Skene on "above class j?"."""
        low = slice(0, j + 1), slice(j + 1, None)
        history = problem.history
        if history is not None:
            history = np.stack([np.stack([history[:, o, t].sum(axis=(1, 2)) for t in low], axis=1) for o in low], axis=1)
        given = problem.class_prior
        shares = None if given is None else np.array([1.0, 0.0]) + above_each(given)[j] * np.array([-1.0, 1.0])
        votes = question(problem.votes, j)
        own = problem.with_votes(votes, history=history, class_prior=shares, warm=None, progress=None)
        return DawidSkene(max_iter=self.max_iter, tol=self.tol, smoothing=self.smoothing).solve(own)
