"""Engine 1: alternate between labels and annotators until neither moves.

One loop serves EM (point parts), variational Bayes (Dirichlet parts) and hard EM, in memory and over shards. Each round

    annotators = annotators fitted to the votes under the posterior
    prior      = prior fitted to the posterior
    posterior  = softmax(prior.log_prob() + sum of the votes' evidence)
    bound      = sum_n logsumexp_k(...) - prior.penalty() - annotators.penalty()

so the bound belongs to the posterior that is returned, and never falls. On a shard a round is one pass: infer posteriors, then
count what the next fit of the parts needs (`statistics`, of which the sum goes to `conditioned`). In memory there is one shard.
It hands its posterior on as it is, and the parts count when they are fitted (`update`, which is both): the last round then
counts nothing in vain, and parts that no counts describe run there too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.engines.loop import Progress, Round, loop, warn_unless_converged
from crowdwise.engines.shards import Kept, Shard, Shards, Tally, Whole
from crowdwise.kernels.numerics import log_floored
from crowdwise.kernels.posterior import clamp, harden
from crowdwise.kernels.types import Array, Floats
from crowdwise.parts.annotators.protocol import AnnotatorModel

__all__ = [
    "Fit",
    "LabelPrior",
    "Parts",
    "alternate",
    "alternate_over",
    "begin_at",
    "best_of",
    "count",
    "infer_and_count",
    "round_over",
]

_TERMS = ("votes", "class prior", "annotators")


class LabelPrior(Protocol):
    """What a label prior is: see `crowdwise.parts.priors.marginals`."""

    @property
    def probability(self) -> Floats: ...  # noqa: D102
    def log_prob(self) -> Floats: ...  # noqa: D102
    def update(self, posterior: Floats) -> LabelPrior: ...  # noqa: D102
    def penalty(self) -> float: ...  # noqa: D102


@dataclass(frozen=True, eq=False)
class Fit:
    """What a method returns: the posterior [N, K], its fitted parts and how it got there.

    `trace` holds one array per named term of the bound; their sum is the bound. The posterior is empty, [0, K], where it stays
    in shards.
    """

    posterior: Floats
    prior: Any
    annotators: Any
    trace: dict[str, Floats]
    n_iter: int
    converged: bool

    @property
    def bound(self) -> float:
        """The last value of the bound."""
        return float(sum(values[-1] for values in self.trace.values())) if self.n_iter else float("-inf")


@dataclass(frozen=True, eq=False)
class Parts:
    """The state of the loop: the parts, and the counts under the posteriors that they gave."""

    prior: Any
    annotators: Any
    tally: Tally


def alternate(
    votes: Annotations,
    prior: LabelPrior,
    annotators: AnnotatorModel,
    *,
    start: Floats,
    known: Array,
    max_iter: int,
    tol: float,
    hard: bool = False,
    progress: Progress | None = None,
) -> Fit:
    """Run the loop over votes in memory, from a posterior `start`, [N, K].

    `hard` assigns each item to its best class between rounds (classification EM, "fast Dawid-Skene"). `known` holds class
    codes of items whose label is given, -1 elsewhere, or is empty.
    """
    shards = Whole(votes, known)
    begun = shards.renew(begin_at, prior, annotators, hard, start)
    return alternate_over(shards, prior, annotators, start=begun, max_iter=max_iter, tol=tol, hard=hard, progress=progress)


def alternate_over(
    shards: Shards,
    prior: Any,
    annotators: Any,
    *,
    start: Tally | None,
    max_iter: int,
    tol: float,
    hard: bool = False,
    progress: Progress | None = None,
) -> Fit:
    """Run the loop over shards from the counts of a `start`; None resumes what an interrupted run has kept."""
    name = type(annotators).__name__
    rounds: list[Round] = []
    if start is None:
        kept = shards.kept(name)
        assert kept is not None
        prior, annotators = kept.prior, kept.annotators
        rounds = [Round(change, dict(zip(_TERMS, terms, strict=True))) for *terms, change in kept.rows.tolist()]
        start = shards.renew(infer_and_count, prior, annotators, hard)

    def keep(parts: Parts, done: Sequence[Round], last: bool = False) -> None:
        rows = np.array([[*each.terms.values(), each.change] for each in done])
        shards.keep(name, Kept(parts.prior, parts.annotators, rows), last)

    run = loop(
        round_over(shards, hard),
        Parts(prior, annotators, start),
        max_iter=max_iter,
        tol=tol,
        progress=progress,
        keep=keep if shards.keeps else None,
        before=rounds,
    )
    if shards.keeps and run.n_iter > len(rounds):
        keep(run.state, run.rounds, last=True)
    trace = run.trace or {term: np.empty(0) for term in _TERMS}
    return Fit(shards.posterior, run.state.prior, run.state.annotators, trace, run.n_iter, run.converged)


def round_over(shards: Shards, hard: bool = False) -> Callable[[Parts], tuple[Parts, Round]]:
    """The step of the loop: fit the parts, then infer and count in every shard."""

    def step(parts: Parts) -> tuple[Parts, Round]:
        prior, annotators = _refitted(shards, parts)
        tally = shards.renew(infer_and_count, prior, annotators, hard)
        terms = dict(zip(_TERMS, (tally.evidence, -prior.penalty(), -annotators.penalty()), strict=True))
        return Parts(prior, annotators, tally), Round(tally.mean_change, terms)

    return step


def begin_at(shard: Shard, prior: Any, annotators: Any, hard: bool, start: Floats) -> Tally:
    """Take over a posterior of the one shard there is; return its counts."""
    shard.posterior = np.array(start)
    clamp(shard.posterior, shard.known)
    return count(shard, prior, annotators, hard)


def count(shard: Shard, prior: Any, annotators: Any, hard: bool) -> Tally:
    """What the parts are fitted to, under the present posterior."""
    assigned = harden(shard.posterior) if hard else shard.posterior
    return Tally(_counts(shard, annotators, assigned))


def infer_and_count(shard: Shard, prior: Any, annotators: Any, hard: bool) -> Tally:
    """Posteriors under these parts, then their counts."""
    before = harden(shard.posterior) if hard else None
    evidence, change = annotators.infer(shard.votes, prior.log_prob(), shard.known, shard.posterior)
    assigned = shard.posterior
    if before is not None:
        evidence += float(log_floored(shard.posterior.max(axis=1)).sum())
        assigned = harden(shard.posterior)
        change = 0.5 * float(np.abs(assigned - before).sum())
    return Tally(_counts(shard, annotators, assigned), evidence, change, len(assigned))


def best_of(fit: Callable[[Floats], Fit], starts: list[Floats]) -> Fit:
    """Fit from every start and keep the highest bound; warn once if that fit did not converge."""
    return warn_unless_converged(max((fit(start) for start in starts), key=lambda done: done.bound))


def _counts(shard: Shard, annotators: Any, assigned: Floats) -> tuple[Floats, ...]:
    """What the parts are fitted to: the posterior of the one shard; elsewhere the shares' counts, then the annotators'."""
    if shard.alone:
        return (assigned,)
    return (assigned.sum(axis=0), *annotators.statistics(shard.votes, assigned))


def _refitted(shards: Shards, parts: Parts) -> tuple[Any, Any]:
    """Both parts, fitted to the counts of the last round, or to the posterior of the one shard."""
    prior, annotators, sums = parts.prior, parts.annotators, parts.tally.sums
    if isinstance(shards, Whole):
        return prior.update(sums[0]), annotators.update(shards.votes, sums[0])
    return prior.conditioned(sums[0]), annotators.conditioned(sums[1:])
