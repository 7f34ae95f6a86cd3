"""Engine 1 over shards: the loop of `crowdwise.engines.alternate` for annotators who are fitted to additive counts.

A round of `alternate` is update, then infer. Here a step on a shard infers and then counts, so that a round is one pass: what
it returns are the counts that the next update needs. Parts are conditioned on their sum in one place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from crowdwise.engines.alternate import Fit, Progress, bound_trace, has_settled
from crowdwise.engines.shards import Kept, Shard, Shards, Tally
from crowdwise.kernels.numerics import log_floored
from crowdwise.kernels.posterior import clamp, harden
from crowdwise.kernels.votes import vote_shares
from crowdwise.parts.annotators.protocol import AnnotatorModel, weight_of

if TYPE_CHECKING:
    from crowdwise.data.annotations import Annotations

__all__ = ["AdditiveModel", "AdditivePrior", "alternate_shards", "count", "infer_and_count", "start_from_votes"]

Floats = NDArray[np.float64]
Model = TypeVar("Model", bound="AdditiveModel")


class AdditiveModel(AnnotatorModel, Protocol):
    """Annotators whose `update` is two steps: counts that add up over items, and what follows from their sum."""

    def statistics(self, votes: Annotations, posterior: Floats) -> tuple[Floats, ...]:
        """Counts of these votes under a posterior of their labels, [n, K]."""
        ...

    def conditioned(self: Model, statistics: tuple[Floats, ...]) -> Model:
        """Fit to counts of all votes."""
        ...


class AdditivePrior(Protocol):
    """Class shares that are fitted to the summed posterior."""

    @property
    def probability(self) -> Floats: ...  # noqa: D102
    def log_prob(self) -> Floats: ...  # noqa: D102
    def conditioned(self, mass: Floats) -> Any: ...  # noqa: D102
    def penalty(self) -> float: ...  # noqa: D102


def start_from_votes(shard: Shard, annotators: AdditiveModel, overall: Floats, hard_start: bool, hard: bool) -> Tally:
    """Vote shares as posteriors (`hard_start`: all on the largest), and their counts."""
    votes = shard.votes
    shares = vote_shares(votes.item_ptr, votes.label, weight_of(votes), votes.n_classes, overall)
    shard.posterior[:] = harden(shares) if hard_start else shares
    clamp(shard.posterior, shard.known)
    return count(shard, annotators, hard)


def count(shard: Shard, annotators: AdditiveModel, hard: bool) -> Tally:
    """Counts under the present posterior: the class shares' first, then the annotators'."""
    assigned = harden(shard.posterior) if hard else shard.posterior
    return Tally((assigned.sum(axis=0), *annotators.statistics(shard.votes, assigned)))


def infer_and_count(shard: Shard, annotators: AdditiveModel, prior: AdditivePrior, hard: bool) -> Tally:
    """Posteriors under these parts, then their counts."""
    before = harden(shard.posterior) if hard else None
    evidence, change = annotators.infer(shard.votes, prior.log_prob(), shard.known, shard.posterior)
    assigned = shard.posterior
    if before is not None:
        evidence += float(log_floored(shard.posterior.max(axis=1)).sum())
        assigned = harden(shard.posterior)
        change = float(np.abs(assigned - before).max(initial=0.0))
    return Tally((assigned.sum(axis=0), *annotators.statistics(shard.votes, assigned)), evidence, change)


def alternate_shards(
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
    """Run the loop of `alternate` from the counts of a `start`; None goes on from what an interrupted run has kept.

    The posterior of the returned fit is empty where it stays in the shards.
    """
    name = type(annotators).__name__
    rows: list[tuple[float, float, float]] = []
    converged = False
    if start is None:
        kept = shards.kept(name)
        assert kept is not None
        prior, annotators = kept.prior, kept.annotators
        rows = [(float(row[0]), float(row[1]), float(row[2])) for row in kept.rows]
        start = shards.renew(infer_and_count, annotators, prior, hard)
        converged = has_settled(rows, kept.change, tol)
    tally = start
    for iteration in range(len(rows), 0 if converged else max_iter):
        annotators = annotators.conditioned(tally.sums[1:])
        prior = prior.conditioned(tally.sums[0])
        tally = shards.renew(infer_and_count, annotators, prior, hard)
        rows.append((tally.evidence, -prior.penalty(), -annotators.penalty()))
        shards.keep(name, Kept(prior, annotators, np.array(rows), tally.change))
        if progress is not None:
            progress(iteration + 1, sum(rows[-1]), tally.change)
        if has_settled(rows, tally.change, tol):
            converged = True
            break
    return Fit(shards.posterior, prior, annotators, bound_trace(rows), len(rows), converged)
