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

so the bound belongs to the posterior that is returned, and never falls. What a round does on a shard is in `shards`; in memory
there is one shard. Large fits leave out items that hardly move, see `focus`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.engines.shards import (
    TERMS,
    Kept,
    Parts,
    Round,
    Shards,
    Tally,
    Whole,
    begin_at,
    count,
    counted,
    infer_and_count,
    refitted,
    remaining,
    round_of,
)
from crowdwise.errors import ConvergenceWarning
from crowdwise.kernels.types import Array, Floats
from crowdwise.parts.annotators.model import AnnotatorModel, FittedToConfusion

__all__ = [
    "ABOUT_TOL",
    "FOCUS_FROM",
    "Fit",
    "LabelPrior",
    "Parts",
    "Progress",
    "Round",
    "Rule",
    "Run",
    "alternate",
    "alternate_over",
]
__all__ += [
    "begin_at",
    "best_of",
    "continued",
    "count",
    "infer_and_count",
    "loop",
    "remaining",
    "round_over",
    "settled",
    "warn_unless_converged",
]


Progress = Callable[[int, float, float], None]
# Votes in all from which a fit leaves out items that hardly move; below, there is too little to save.
FOCUS_FROM = 100_000
State = TypeVar("State")

ABOUT_TOL = (
    "Stop when the share of an item's probability that is still to move, estimated and in the mean, and the relative change of "
    "the bound are at most this."
)


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
    if len(rounds) < 2 or rounds[-1].scope != "all" or not remaining(rounds) <= tol:
        return False
    before, last = rounds[-2:]
    return not last.terms or abs(last.bound - before.bound) <= tol * abs(last.bound)


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
    if _from_confusion(prior, annotators) and not hard:
        shards = shards.collapsed()
    begun = shards.renew(begin_at, prior, annotators, hard, shards.gathered(start))
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
        rounds = [Round.of_row(row) for row in kept.rows.tolist()]
        start = shards.renew(infer_and_count, prior, annotators, hard)

    step: Callable[[Parts], tuple[Parts, Round]] = round_over(shards, hard)
    focus = None
    large = start.n_votes >= FOCUS_FROM and rule is None and not hard
    if large and _from_confusion(prior, annotators):
        from crowdwise.engines.focus import Focus

        step = focus = Focus(shards, tol=tol, max_iter=max_iter, before=rounds)

    def keep(parts: Parts, done: Sequence[Round], last: bool = False) -> None:
        # Where some items stand aside, posteriors do not follow from the parts alone.
        if focus is None or focus.whole or last:
            rows = np.array([each.row for each in done])
            shards.keep(name, Kept(parts.prior, parts.annotators, rows), last)

    run = loop(
        step,
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
    trace = run.trace or {term: np.empty(0) for term in TERMS}
    return Fit(shards.posterior, run.state.prior, run.state.annotators, trace, run.n_iter, run.converged)


def _from_confusion(prior: Any, annotators: Any) -> bool:
    """Whether confusion counts and class shares are all that these parts are fitted to."""
    return counted(prior, annotators) and isinstance(annotators, FittedToConfusion)


def round_over(shards: Shards, hard: bool = False) -> Callable[[Parts], tuple[Parts, Round]]:
    """The step of the loop: fit the parts, then infer and count in every shard."""

    def step(parts: Parts) -> tuple[Parts, Round]:
        prior, annotators = refitted(shards, parts)
        parts = Parts(prior, annotators, shards.renew(infer_and_count, prior, annotators, hard))
        return parts, round_of(parts)

    return step


def continued(progress: Progress | None, n_iter: int) -> Progress | None:
    """The `progress` of a run that comes after so many rounds of another."""
    if progress is None:
        return None
    report = progress
    return lambda number, bound, change: report(n_iter + number, bound, change)


def best_of(fit: Callable[[Floats], Fit], starts: list[Floats]) -> Fit:
    """Fit from every start and keep the highest bound; warn once if that fit did not converge."""
    return warn_unless_converged(max((fit(start) for start in starts), key=lambda done: done.bound))
