"""The one loop, and engine 1 on it: alternate between labels and annotators until neither moves.

A *step* takes a state and returns the next one with a `Round`: the terms of what it maximises, and how far it moved its items.
What a state holds, and where a step runs, is the business of the step. The rule to stop by, with one meaning of `tol`
everywhere: after two rounds or more,

    change r / (1 - r) <= tol     and, where there is a bound,     |bound - bound before| <= tol |bound|
    change = (1/N) sum_n d(q_n, q_n before),     r = 2 ** (-1 / h)

`d` is half the sum of absolute differences (the total variation distance): the share of an item's probability that moved, at
least as large as the change of any entry, and the sum of what items of shards report. `h` is the number of rounds in which the
change fell to half; where it never was twice as large, all rounds so far. Left of `tol` stands the sum of all changes to come
if they go on halving as fast. So with tol = 1e-6 at most one item of 10,000 has a hundredth of its probability still to move.

The mean, because a few items of a million can wander for a thousand rounds where nothing else moves. What is to come instead of
the last change, because a fit that creeps past a saddle moves little in a round and much in all: changes shrink ever more
slowly, then grow again, and labels move only then. The bound, because parameters may still be on their way while labels rest.

Engine 1 serves EM (point parts), variational Bayes (Dirichlet parts) and hard EM, in memory and over shards. Each round

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

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.engines.shards import Kept, Shard, Shards, Tally, Whole
from crowdwise.errors import ConvergenceWarning
from crowdwise.kernels.numerics import clamp, harden, log_floored, moved
from crowdwise.kernels.types import Array, Floats
from crowdwise.parts.annotators.model import AnnotatorModel

__all__ = ["ABOUT_TOL", "Fit", "LabelPrior", "Parts", "Progress", "Round", "Rule", "Run", "alternate", "alternate_over"]
__all__ += [
    "begin_at",
    "best_of",
    "count",
    "infer_and_count",
    "loop",
    "remaining",
    "round_over",
    "settled",
    "warn_unless_converged",
]


Progress = Callable[[int, float, float], None]
State = TypeVar("State")

ABOUT_TOL = (
    "Stop when the share of an item's probability that is still to move, estimated and in the mean, and the relative change of "
    "the bound are at most this."
)


@dataclass(frozen=True)
class Round:
    """What a step reports.

    Attributes
    ----------
    change : float
        Mean over items of the share of their probability that moved (or what comes close to it, where items have none).
    terms : mapping
        What the bound is the sum of, by name; empty where a method has no bound.
    """

    change: float
    terms: Mapping[str, float] = field(default_factory=dict)

    @property
    def bound(self) -> float:
        """The sum of the terms; not a number where there are none."""
        return math.fsum(self.terms.values()) if self.terms else math.nan


Rule = Callable[[Sequence[Round], float], bool]


@dataclass(frozen=True, eq=False)
class Run(Generic[State]):
    """A loop that has ended: the last state, the rounds behind it, and whether the stopping rule was met."""

    state: State
    rounds: Sequence[Round]
    converged: bool

    @property
    def n_iter(self) -> int:
        """Number of rounds."""
        return len(self.rounds)

    @property
    def trace(self) -> dict[str, Floats]:
        """The terms of the bound by name, an entry per round."""
        names = self.rounds[-1].terms if self.rounds else ()
        return {name: np.array([done.terms[name] for done in self.rounds]) for name in names}


def loop(
    step: Callable[[State], tuple[State, Round]],
    state: State,
    *,
    max_iter: int,
    tol: float,
    progress: Progress | None = None,
    keep: Callable[[State, Sequence[Round]], None] | None = None,
    before: Sequence[Round] = (),
    rule: Rule | None = None,
) -> Run[State]:
    """Repeat a step until the stopping rule is met, at most until there are `max_iter` rounds.

    Parameters
    ----------
    step : callable
        Takes a state; returns the next state and a `Round`.
    state
        Where to start.
    progress : callable, optional
        Called after every round with (number, bound, mean change per item).
    keep : callable, optional
        Called after every round with the state and all rounds, to resume an interrupted run from.
    before : sequence of Round
        Rounds that led to `state`, of a run that is resumed; they count.
    rule : callable, optional
        Another rule to stop by, for fits without a bound that are stopped early on purpose; default `settled`.
    """
    rounds, rule = list(before), rule or settled
    converged = rule(rounds, tol)
    while not converged and len(rounds) < max_iter:
        state, done = step(state)
        rounds.append(done)
        if keep is not None:
            keep(state, rounds)
        if progress is not None:
            progress(len(rounds), done.bound, done.change)
        converged = rule(rounds, tol)
    return Run(state, rounds, converged)


def settled(rounds: Sequence[Round], tol: float) -> bool:
    """The stopping rule: items have hardly any way to go, and the last round hardly moved the bound."""
    if len(rounds) < 2 or not remaining(rounds) <= tol:
        return False
    before, last = rounds[-2:]
    return not last.terms or abs(last.bound - before.bound) <= tol * abs(last.bound)


def remaining(rounds: Sequence[Round]) -> float:
    """How far items are still to move in the mean: the sum of all later changes, if these go on halving as fast as they did."""
    last = rounds[-1].change
    if last == 0:
        return 0.0
    half_life = next((n for n in range(1, len(rounds)) if rounds[-1 - n].change >= 2 * last), len(rounds))
    return last / (2 ** (1 / half_life) - 1)


class Ended(Protocol):
    """Anything that knows how it ended."""

    @property
    def n_iter(self) -> int: ...
    @property
    def converged(self) -> bool: ...


Done = TypeVar("Done", bound=Ended)


def warn_unless_converged(run: Done, *, stacklevel: int = 5) -> Done:
    """Return the run, with a warning if it stopped early."""
    if not run.converged:
        warnings.warn(
            f"stopped after {run.n_iter} iterations before the stopping rule was met; raise max_iter or tol",
            ConvergenceWarning,
            stacklevel=stacklevel,
        )
    return run


# -- engine 1 ----------------------------------------------------------------------------------

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
    rule: Rule | None = None,
    name: str = "",
) -> Fit:
    """Run the loop over shards from the counts of a `start`; None resumes what an interrupted run has kept.

    `name` tells apart what is kept by runs over the same shards; by default it is the kind of annotator model. For `rule` see
    `loop`.
    """
    name = name or type(annotators).__name__
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
        rule=rule,
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
        change = moved(assigned, before)
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
