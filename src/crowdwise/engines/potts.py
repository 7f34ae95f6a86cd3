"""Labels that depend on each other along the edges of a graph: a step of the loop that sweeps over items.

A round fits annotators to the posterior as engine 1 does, then moves the coupling and the class shares up the pseudo-likelihood
of the votes, then sweeps once over all items by mean field or by beliefs (`crowdwise.kernels.potts`).

    coupling <- coupling + slope / information                                  not below 0
    shares_k proportional to shares_k * (items of class k after their votes) / (items of class k before them)

With coupling 0 the second line and the sweep are those of Dawid-Skene. What the loop reports as "votes" is the
pseudo-likelihood, sum_n log p(votes on n | votes on all other items): no bound, it may fall.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.engines.loop import Fit, Progress, continued, loop
from crowdwise.engines.shards import TERMS, Round
from crowdwise.kernels.numerics import log_floored, log_softmax
from crowdwise.kernels.potts import (
    Neighbours,
    PseudoLikelihood,
    believed_field,
    cavity_of,
    expected_field,
    pseudo_likelihood,
    sweep_beliefs,
    sweep_mean_field,
)
from crowdwise.kernels.types import Array, Floats
from crowdwise.parts.priors.potts import PottsField

__all__ = ["INFERENCES", "PATIENCE", "STRONGEST", "CoupledItems", "couple", "stepped"]

INFERENCES = ("bp", "mean-field")
# An edge whose two ends differ is this unlikely at most, in logs: the exponential of more could not be told from infinity.
STRONGEST = 30.0
# Rounds in which the pseudo-likelihood may fall: beliefs settle after every step of the coupling.
PATIENCE = 5


@dataclass(frozen=True, eq=False)
class _State:
    """Parts and posterior after a round; `cavity` is empty under mean field."""

    annotators: Any
    shares: Any
    coupling: float
    posterior: Floats
    cavity: Floats
    field: Floats
    slope: Floats
    learn: bool
    best: tuple[float, int, _State] | None = None


@dataclass(frozen=True, eq=False)
class CoupledItems:
    """Items with their votes and edges: what stays the same from round to round."""

    votes: Annotations
    known: Array
    graph: Neighbours
    beliefs: bool

    def evidence(self, annotators: Any) -> tuple[Floats, float]:
        """What an item's own votes say of its class, in logs up to a constant per item, [N, K], and the sum of these."""
        votes = self.votes
        flat = np.zeros((votes.n_items, votes.n_classes))
        constant, _ = annotators.infer(votes, np.zeros((1, votes.n_classes)), self.known, flat)
        return log_floored(flat), float(constant)

    def fields(self, coupling: float, posterior: Floats, cavity: Floats) -> tuple[Floats, Floats]:
        """What neighbours add to the scores of every item, and its derivative by the coupling, [N, K] each."""
        return believed_field(self.graph, coupling, cavity) if self.beliefs else expected_field(self.graph, coupling, posterior)

    def sweep(self, scores: Floats, coupling: float, cavity: Floats, posterior: Floats) -> float:
        """Once over all items, into `cavity` and `posterior`; return the shares that moved, summed."""
        if self.beliefs:
            return sweep_beliefs(self.graph, scores, coupling, cavity, posterior)
        return sweep_mean_field(self.graph, scores, coupling, posterior)

    def likelihood(self, shares: Any, evidence: Floats, field: Floats, slope: Floats) -> PseudoLikelihood:
        """Of items with votes alone: the others predict nothing, and are predicted for sure."""
        told = self.votes.votes_per_item > 0
        if len(self.known):
            told = told | (self.known >= 0)
        if not told.all():
            evidence, field, slope = evidence[told], field[told], slope[told]
        return pseudo_likelihood(shares.log_prob(), evidence, field, slope)

    def first_cavity(self, posterior: Floats) -> Floats:
        """Messages to start from; none under mean field."""
        return cavity_of(self.graph, posterior) if self.beliefs else np.empty((0, posterior.shape[1]))

    def start(self, fit: Fit, coupling: float | None) -> _State:
        """The state to start from: that of items without edges."""
        posterior = np.array(fit.posterior)
        cavity = self.first_cavity(posterior)
        fields = self.fields(coupling or 0.0, posterior, cavity)
        return _State(fit.annotators, fit.prior, coupling or 0.0, posterior, cavity, *fields, learn=coupling is None)

    def __call__(self, state: _State) -> tuple[_State, Round]:
        """A round: annotators, shares and coupling, then a sweep."""
        annotators = state.annotators.update(self.votes, state.posterior)
        evidence, constant = self.evidence(annotators)
        found = self.likelihood(state.shares, evidence, state.field, state.slope)
        shares = state.shares.conditioned(state.shares.probability * found.after_k / np.maximum(found.before_k, 1e-300))
        weight = self.graph.weight
        scale = float(np.mean(weight**2)), float(weight.max())
        coupling = stepped(state.coupling, found.slope, found.information, *scale) if state.learn else state.coupling
        posterior, cavity = state.posterior.copy(), state.cavity.copy()
        moved = self.sweep(shares.log_prob() + evidence, coupling, cavity, posterior)
        field, slope = self.fields(coupling, posterior, cavity)
        value = constant + self.likelihood(shares, evidence, field, slope).value
        terms = dict(zip(TERMS, (value, -shares.penalty(), -annotators.penalty()), strict=True))
        after = _State(annotators, shares, coupling, posterior, cavity, field, slope, state.learn)
        done = Round(moved / max(self.votes.n_items, 1), terms)
        return (_watched(state, after, done.bound) if state.learn else after), done

    def log_prior(self, shares: Any, coupling: float, posterior: Floats, field: Floats) -> Floats:
        """Log-probabilities of every item's class before its own votes, such that the posterior follows from them, [N, K]."""
        if not self.beliefs:
            from scipy.sparse import csr_matrix

            graph = self.graph
            links = csr_matrix((graph.weight, graph.neighbour, graph.ptr), shape=(graph.n_items, graph.n_items))
            field = coupling * (links @ posterior)
        return log_softmax(shares.log_prob() + field)


def stepped(coupling: float, slope: float, information: float, mean_square: float, largest: float) -> float:
    """A step up the pseudo-likelihood: as far as if labels were known, hence too short rather than too long.

    `mean_square` and `largest` are of the weights of all edges.
    """
    if information <= 0:
        return coupling
    # Far from the end the information is that of another coupling; a unit of log-odds per edge is far enough at once.
    longest = 1 / float(np.sqrt(mean_square))
    step = float(np.clip(slope / information, -longest, longest))
    return min(max(coupling + step, 0.0), STRONGEST / largest)


def _watched(before: _State, after: _State, value: float) -> _State:
    """The state to continue from: where the pseudo-likelihood has fallen for long, the best one, whose coupling stays.

    The step holds what neighbours say fixed. Where labels are so smooth that any strong coupling will do, it points further
    up although neighbours, once they are coupled so strongly, predict worse.
    """
    if before.best is None or value > before.best[0]:
        return replace(after, best=(value, 0, after))
    best, waited, state = before.best
    if waited + 1 == PATIENCE:
        return replace(state, learn=False)
    return replace(after, best=(best, waited + 1, state))


def couple(
    fit: Fit,
    votes: Annotations,
    known: Array,
    graph: Neighbours,
    *,
    coupling: float | None,
    association: float,
    beliefs: bool,
    max_iter: int,
    tol: float,
    progress: Progress | None = None,
) -> Fit:
    """Continue a fit of single items with the edges between them; its rounds count.

    `coupling` is learned where it is None; `association` is only kept.
    """
    rounds = CoupledItems(votes, known, graph, beliefs)

    step: Callable[[_State], tuple[_State, Round]] = rounds
    run = loop(step, rounds.start(fit, coupling), max_iter=max_iter, tol=tol, progress=continued(progress, fit.n_iter))
    state = run.state
    log_nk = rounds.log_prior(state.shares, state.coupling, state.posterior, state.field)
    prior = PottsField(log_nk, state.shares, float(state.coupling), association)
    posterior = state.posterior
    # Once more, all at a time: what is returned is what the parts say of these votes, to the last digit.
    state.annotators.infer(votes, prior.log_prob(), known, posterior)
    trace = {term: np.concatenate([fit.trace[term], run.trace[term]]) for term in TERMS}
    done = replace(fit, posterior=posterior, prior=prior, annotators=state.annotators, trace=trace)
    return replace(done, n_iter=fit.n_iter + run.n_iter, converged=run.converged)
