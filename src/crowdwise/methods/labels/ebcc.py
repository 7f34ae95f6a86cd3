"""EBCC: classes split into subtypes, which annotators' errors share.

Model      d_k;  pi_k ~ Dir(a / G);  z_n ~ d, g_n ~ pi[z_n];  v_akm ~ Dir(beta0_k);  vote of a on n ~ v[a, z_n, g_n]
Updates    eta_km = a / G + sum_n xi_nkm;  beta_akml = beta0_kl + sum of xi_nkm over the votes l of a
           log xi_nkm = log d_k + E log pi_km + sum_e E log v[a_e, k, m, y_e] + const;  q_nk = sum_m xi_nkm
Bound      sum_n logsumexp_km(...) - KL(pi) - KL(v) + log prior of d

Symbols
-------
xi_nkm : [N, K G]     posterior of class and subtype; the paper's q(z_i = k, g_i = m)
eta_km : [K, G]       the paper's eta
beta_als : [A, L, K G]  the paper's mu_jkml

Notes
-----
Subtypes are more latent states than classes: the engine and `DirichletConfusion` run unchanged over
K G states, and `SubtypeConfusion` reads the classes out. Votes of different annotators are
independent given the subtype, so they are correlated given the class: that is the point of the model.

Defaults are the authors': G = 10, a = 0.1, beta0 = 4 on the diagonal and 1 beside it, shares of classes
with as many pseudo-items as the vote shares give. Departures: class shares are a point (their
posterior mean) instead of a Dirichlet, which changes E[log d] by about 1 / (4 N_k); items without votes
get the class shares and say nothing of subtypes; there are never more subtypes than items per class. The
authors take the best bound of 40 random splits of the vote shares. Here the first run starts undivided, all
mass of a class on one subtype, which finds the best bound known on most public sets (random splits
reach it once in many); the other `restarts` are random splits. All run side by side (`engines.race`).
Cost per iteration and run: O(E K G).

References
----------
Li, Rubinstein and Cohn (2019), Exploiting worker correlation for label aggregation in
crowdsourcing, ICML.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from crowdwise.engines.loop import Fit
from crowdwise.engines.race import race
from crowdwise.estimator.aggregator import Problem
from crowdwise.estimator.estimator import announce, setting
from crowdwise.kernels.numerics import clamp
from crowdwise.kernels.types import Floats
from crowdwise.methods.labels.iterative import IterativeAggregator, start_posteriors
from crowdwise.parts.annotators.model import DirichletConfusion
from crowdwise.parts.annotators.states import weight_per_item
from crowdwise.parts.annotators.subtypes import SubtypeConfusion
from crowdwise.parts.priors.subtypes import Subtypes

__all__ = ["EBCC"]


@dataclass(eq=False, repr=False, kw_only=True)
class EBCC(IterativeAggregator):
    """Bayesian classifier combination with subtypes of classes, which make annotators' errors correlated."""

    subtypes: int = setting(10, "Most subtypes of a class.", low=1, whole=True)
    sparsity: float = setting(0.1, "Dirichlet parameter that the subtypes of a class share; small means few are used.", above=0)
    diagonal: float = setting(4.0, "Dirichlet parameter of a right answer.", above=0)
    off_diagonal: float = setting(1.0, "Dirichlet parameter of each wrong answer.", above=0)
    max_iter: int = setting(500, "Most iterations of one run.", low=1, whole=True)
    restarts: int = setting(
        8,
        "Runs: the first with undivided classes, the others from random splits; the best bound is kept.",
        low=1,
        high=1000,
        whole=True,
    )

    name: ClassVar[str] = "ebcc"

    def _fit(self, problem: Problem) -> Fit:
        votes = problem.votes
        n_classes = votes.n_classes
        silent = weight_per_item(votes) == 0
        n_subtypes = min(self.subtypes, max(1, -(-int((~silent).sum()) // n_classes)))
        states = n_classes * n_subtypes
        table = 8.0 * votes.n_annotators * n_classes * states
        announce(
            "EBCC",
            operations=60.0 * self.restarts * (10.0 * table + 4.0 * votes.n_votes * states),
            memory=self.restarts * (table + 8.0 * votes.n_items * states) + 4 * table,
            advice="use fewer subtypes or restarts, or bayes-gc",
        )
        prior_als = np.repeat(np.where(np.eye(n_classes, dtype=bool), self.diagonal, self.off_diagonal), n_subtypes, axis=1)[
            None
        ]
        if problem.history is not None:
            # The subtypes of earlier items are unknown, so all subtypes of a class start from them.
            prior_als = prior_als + np.repeat(problem.history, n_subtypes, axis=2)
        shares = problem.shares
        clamp(shares, problem.known)
        eta0 = self.sparsity / n_subtypes
        prior = Subtypes(
            marginals=problem.marginals(pseudo_count=shares[~silent].sum(axis=0)),
            eta0=eta0,
            eta_km=np.full((n_classes, n_subtypes), eta0),
            silent=silent,
            known=problem.known,
        )
        start = np.array(start_posteriors(problem, self.init, 1)[0])
        clamp(start, problem.known)
        done = race(
            votes,
            prior,
            DirichletConfusion.start(prior_als, votes.n_annotators),
            starts=[_undivided(start, n_subtypes), *(_split(problem, start, n_subtypes) for _ in range(self.restarts - 1))],
            max_iter=self.max_iter,
            tol=self.tol,
            progress=problem.progress,
        )
        posterior = done.posterior.reshape(votes.n_items, n_classes, n_subtypes).sum(axis=2)
        clamp(posterior, problem.known)
        annotators = SubtypeConfusion(prior_als, done.annotators.beta_alk, eta0, done.prior.eta_km)
        return Fit(posterior, done.prior.marginals, annotators, done.trace, done.n_iter, done.converged)


def _undivided(start: Floats, n_subtypes: int) -> Floats:
    """All mass of a class on its first subtype, [N, K G]."""
    states = np.zeros((*start.shape, n_subtypes))
    states[:, :, 0] = start
    return states.reshape(len(start), -1)


def _split(problem: Problem, start: Floats, n_subtypes: int) -> Floats:
    """Spread the mass of every item and class at random over the subtypes, [N, K G]."""
    n_items, n_classes = start.shape
    part = problem.rng.dirichlet(np.ones(n_subtypes), size=(n_items, n_classes))
    return np.asarray((start[:, :, None] * part).reshape(n_items, -1))
