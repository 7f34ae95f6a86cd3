"""What a method is given to fit, and the posteriors it may start from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdwise.data.annotations import Annotations
from crowdwise.data.encode import codes_of, series_of, tidy, translate
from crowdwise.engines.alternate import Progress
from crowdwise.engines.sharded import count, start_from_votes
from crowdwise.engines.shards import Shards, Tally, Whole
from crowdwise.errors import SettingError
from crowdwise.estimator.result import Result
from crowdwise.kernels.posterior import harden
from crowdwise.kernels.votes import overall_shares, vote_shares
from crowdwise.parts.annotators.protocol import weight_of
from crowdwise.parts.priors.marginals import Marginals

__all__ = ["MOMENT_STARTS", "Problem", "carried_posterior", "positions", "start_of_shards", "start_posteriors"]

Floats = NDArray[np.float64]

# Moment methods whose estimate, without its EM steps, may start another method (registry names).
MOMENT_STARTS = ("spectral-ds", "tensor-admm", "multi-spa", "cnmf", "sym-nmf", "eigen", "pgd", "m-msr")
# Starts that can be found shard by shard and do not depend on how votes are cut.
SHARDED_STARTS = ("votes", "hard-votes", "one-coin")


@dataclass(frozen=True, eq=False)
class Problem:
    """Votes and everything known beside them, validated and encoded.

    Attributes
    ----------
    known : [N] or [0]
        Class codes of gold items, -1 elsewhere.
    history : [A, L, K] or None
        Earlier answers of annotators, as counts.
    class_prior : [K] or None
        Given class shares; None means learn them.
    warm : [N, K] or None
        Posterior to go on from.
    spread : Shards or None
        Where the votes are, if not in `votes`, which then holds no more than their sizes, vocabularies and `answers`.
    """

    votes: Annotations
    known: NDArray[np.int16]
    history: Floats | None
    class_prior: Floats | None
    warm: Floats | None
    rng: np.random.Generator
    progress: Progress | None
    spread: Shards | None = None

    @cached_property
    def shards(self) -> Shards:
        """The votes in shards: those they were spread over, or one of all."""
        return Whole(self.votes, self.known) if self.spread is None else self.spread

    @property
    def shares(self) -> Floats:
        """Vote shares, [N, K]."""
        votes = self.votes
        return vote_shares(votes.item_ptr, votes.label, weight_of(votes), votes.n_classes)

    def marginals(self, pseudo_count: float | Floats = 0.0) -> Marginals:
        """Point class shares: the given ones, or to be learned."""
        if self.class_prior is not None:
            return Marginals(self.class_prior, learn=False)
        return Marginals(np.full(self.votes.n_classes, 1 / self.votes.n_classes), pseudo_count=pseudo_count)


def start_posteriors(problem: Problem, init: Any, restarts: int) -> list[Floats]:
    """Posteriors to start from: `init` first, then random ones; a warm start is the only one."""
    if problem.warm is not None:
        return [problem.warm]
    votes = problem.votes
    shares = problem.shares
    if isinstance(init, str) and init == "moments":
        from crowdwise.methods.labels.moment_start import moment_starts

        starts = moment_starts(problem)
        return [*starts, *(_random_start(problem, shares) for _ in range(restarts - len(starts)))]
    if isinstance(init, str):
        first = _named_start(problem, init, shares)
    else:
        try:
            first = np.asarray(init, float)
        except (TypeError, ValueError):
            first = np.empty(0)
        if first.shape != shares.shape or not np.allclose(first.sum(axis=1), 1) or (first < 0).any():
            raise SettingError(f"init must be a posterior of shape {(votes.n_items, votes.n_classes)} whose rows sum to one")
    return [first, *(_random_start(problem, shares) for _ in range(restarts - 1))]


def start_of_shards(problem: Problem, annotators: Any, init: str, hard: bool) -> Tally:
    """Posteriors to start from in every shard, one of `SHARDED_STARTS`; return their counts."""
    shards = problem.shards
    if init == "one-coin":
        _one_coin(problem)
        return shards.total(count, annotators, hard)
    overall = overall_shares(problem.votes.answers.sum(axis=0))
    return shards.renew(start_from_votes, annotators, overall, init == "hard-votes", hard)


def _one_coin(problem: Problem) -> Floats:
    """The posterior of a one-coin fit, left in the shards where there are some."""
    from crowdwise.methods.labels.one_coin import OneCoin

    # With learned class shares, symmetric annotators and shares feed each other; see `one_coin`.
    uniform = np.full(problem.votes.n_classes, 1 / problem.votes.n_classes)
    given = uniform if problem.class_prior is None else problem.class_prior
    return OneCoin()._fit(replace(problem, class_prior=given, progress=None)).posterior


def _named_start(problem: Problem, init: str, shares: Floats) -> Floats:
    if init == "random":
        return _random_start(problem, shares)
    if init == "hard-votes":
        return harden(shares)
    if init == "one-coin":
        return _one_coin(problem)
    if init in MOMENT_STARTS:
        from crowdwise.estimator.registry import make_aggregator

        return make_aggregator(init, polish=0)._fit(replace(problem, progress=None)).posterior
    return shares


def _random_start(problem: Problem, shares: Floats) -> Floats:
    """Half noise, half vote shares: the votes keep the classes' names attached to them."""
    noise = problem.rng.dirichlet(np.ones(shares.shape[1]), size=len(shares))
    return 0.5 * shares + 0.5 * noise


def positions(ids: NDArray[Any], vocabulary: NDArray[Any]) -> NDArray[np.int64]:
    """Position of every id in `vocabulary`, -1 where absent.

    A bootstrap sample of items repeats ids in the vocabulary; the first of them is found.
    """
    known = tidy(series_of(vocabulary))
    first = known.is_first_distinct()
    codes = codes_of(tidy(series_of(ids)), known.filter(first))
    return np.append(np.flatnonzero(first.to_numpy()), -1)[codes]


def carried_posterior(earlier: Result, votes: Annotations) -> Floats:
    """Posterior of an earlier fit, carried over to `votes` with their own items and classes.

    Items not seen before get the earlier model's opinion of their votes. Where classes are new,
    the earlier model knows nothing of them, so vote shares are mixed in.
    """
    old = earlier.votes
    columns = translate(old.classes, votes.classes)
    rows = positions(votes.items, old.items)
    shares = vote_shares(votes.item_ptr, votes.label, weight_of(votes), votes.n_classes)
    if (columns < 0).any():
        return shares
    carried = np.zeros(shares.shape)
    seen = rows >= 0
    carried[np.ix_(seen, columns)] = earlier.posterior[rows[seen]]
    if votes.n_classes > old.n_classes:
        carried[~seen] = shares[~seen]
        return 0.5 * carried + 0.5 * shares
    order = np.argsort(columns)
    fresh = votes[~seen].with_classes(old.classes.tolist()) if (~seen).any() else None
    if fresh is not None:
        who = positions(votes.annotators, old.annotators)
        opinion = np.zeros((fresh.n_items, old.n_classes))
        model = earlier.annotators.aligned(who, np.full(fresh.n_items, -1))
        model.infer(fresh, earlier.prior.log_prob(), np.empty(0, np.int16), opinion)
        carried[~seen] = opinion[:, order]
    return carried
