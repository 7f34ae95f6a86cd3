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
Subtypes are more latent states than classes; `SubtypeConfusion` reads the classes out. Votes of different annotators
are independent given the subtype, so they are correlated given the class: that is the point of the model.

Defaults are the authors': G = 10, a = 0.1, beta0 = 4 on the diagonal and 1 beside it, shares of classes
with as many pseudo-items as the vote shares give. Departures: class shares are a point (their
posterior mean) instead of a Dirichlet, which changes E[log d] by about 1 / (4 N_k); items without votes
get the class shares and say nothing of subtypes; there are never more subtypes than items per class. The
authors take the best bound of 40 random splits of the vote shares. Here the first run starts undivided, all
mass of a class on one subtype, which finds the best bound known on most public sets (random splits
reach it once in many); the other `restarts` are random splits. All run side by side (`engines.race`).
Subtypes that have lost all their mass are equal and are computed as one (`parts.annotators.subtype_states`): of
K G, which every run of the authors' code pays for throughout, K to 3 K are left after some fifteen iterations on most sets.
Cost per iteration and run: O(E S + A K S) for S states.

References
----------
Li, Rubinstein and Cohn (2019), Exploiting worker correlation for label aggregation in
crowdsourcing, ICML.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.engines.loop import Fit, Round, Run
from crowdwise.engines.race import race
from crowdwise.estimator.aggregator import Problem
from crowdwise.estimator.estimator import announce, setting
from crowdwise.kernels.numerics import clamp
from crowdwise.kernels.types import Floats
from crowdwise.methods.labels.dawid_skene import IterativeAggregator, start_posteriors
from crowdwise.parts.annotators.subtype_states import Counted, SubtypeStates, count_states, merge_columns, mergeable
from crowdwise.parts.annotators.subtypes import SubtypeConfusion
from crowdwise.parts.priors.subtypes import Subtypes

__all__ = ["EBCC"]

# Votes times states from which compiled loops pay for being loaded.
_COMPILED_FROM = 200_000


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
        silent = votes.weight_per_item == 0
        n_subtypes = min(self.subtypes, max(1, -(-int((~silent).sum()) // n_classes)))
        states = n_classes * n_subtypes
        table = 8.0 * votes.n_annotators * n_classes * states
        announce(
            "EBCC",
            operations=60.0 * self.restarts * (10.0 * table + 4.0 * votes.n_votes * states),
            memory=self.restarts * (table + 8.0 * votes.n_items * states) + 4 * table,
            advice="use fewer subtypes or restarts, or bayes-gc",
        )
        prior_alk = np.where(np.eye(n_classes, dtype=bool), self.diagonal, self.off_diagonal)[None]
        if problem.history is not None:
            # The subtypes of earlier items are unknown, so all subtypes of a class start from them.
            prior_alk = prior_alk + problem.history
        shares = problem.shares
        clamp(shares, problem.known)
        eta0 = self.sparsity / n_subtypes
        class_s = np.repeat(np.arange(n_classes), n_subtypes)
        prior = Subtypes(
            marginals=problem.marginals(pseudo_count=shares[~silent].sum(axis=0)),
            eta0=eta0,
            class_s=class_s,
            times_s=np.ones(states),
            mass_s=np.zeros(states),
            silent=silent,
            known=problem.known,
        )
        start = np.array(start_posteriors(problem, self.init, 1)[0])
        clamp(start, problem.known)
        starts = (_undivided(start, n_subtypes) if i == 0 else _split(problem, start, n_subtypes) for i in range(self.restarts))
        annotators = SubtypeStates.start(prior_alk)
        done = race(
            _step_on(votes, compiled=votes.n_votes * states >= _COMPILED_FROM and not votes.soft),
            [_State(prior, annotators, xi, count_states(votes, prior, xi)) for xi in starts],
            max_iter=self.max_iter,
            tol=self.tol,
            progress=problem.progress,
        )
        return _read_out(problem, prior_alk, n_subtypes, done)


@dataclass(frozen=True, eq=False)
class _State:
    """A run: its parts, the posterior of its states, and what the next parts are fitted to."""

    prior: Subtypes
    annotators: SubtypeStates
    xi_ns: Floats
    counted: Counted


def _step_on(votes: Annotations, compiled: bool) -> Callable[[_State], tuple[_State, Round]]:
    """The step of a run: take dead subtypes together, fit the parts, infer and count."""

    def step(now: _State) -> tuple[_State, Round]:
        prior, xi, counts, mass = now.prior, now.xi_ns, now.counted.counts_als, now.counted.mass
        groups = mergeable(prior, mass[0])
        if groups is not None:
            xi, counts, mass, times_s = (merge_columns(values, groups) for values in (xi, counts, mass, prior.times_s))
            prior = replace(prior, class_s=prior.class_s[[group[0] for group in groups]], times_s=times_s)
        prior = prior.conditioned(mass)
        annotators = now.annotators.conditioned(counts, prior.class_s, prior.times_s, compiled)
        counted = annotators.infer_and_count(votes, prior, xi, compiled)
        terms = {"votes": counted.evidence, "class prior": -prior.penalty(), "annotators": -annotators.kl}
        return _State(prior, annotators, xi, counted), Round(counted.change / max(votes.n_items, 1), terms)

    return step


def _read_out(problem: Problem, prior_alk: Floats, n_subtypes: int, done: Run[_State]) -> Fit:
    """Classes and all subtypes of the best run."""
    prior, annotators = done.state.prior, done.state.annotators
    n_classes = problem.votes.n_classes
    posterior = np.stack([done.state.xi_ns[:, prior.class_s == k].sum(axis=1) for k in range(n_classes)], axis=1)
    clamp(posterior, problem.known)
    # States are sorted by class, and those of a class stand for all its subtypes.
    subtype = np.repeat(np.arange(len(prior.class_s)), prior.times_s.astype(np.int64))
    eta_km = prior.eta_s[subtype].reshape(n_classes, n_subtypes)
    prior_als = np.repeat(prior_alk, n_subtypes, axis=2)
    part = SubtypeConfusion(prior_als, np.ascontiguousarray(annotators.beta_als[:, :, subtype]), prior.eta0, eta_km)
    return Fit(posterior, prior.marginals, part, done.trace, done.n_iter, done.converged)


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
