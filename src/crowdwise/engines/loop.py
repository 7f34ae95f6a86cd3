"""The one loop: repeat a step until it changes little.

A *step* takes a state and returns the next one with a `Round`: the terms of what it maximises, and how far it moved its items.
What a state holds, and where a step runs, is the business of the step (see `crowdwise.engines.alternate`).

The rule to stop by, with one meaning of `tol` everywhere: after two rounds or more,

    change r / (1 - r) <= tol     and, where there is a bound,     |bound - bound before| <= tol |bound|
    change = (1/N) sum_n d(q_n, q_n before),     r = 2 ** (-1 / h)

`d` is half the sum of absolute differences (the total variation distance): the share of an item's probability that moved, at
least as large as the change of any entry, and the sum of what items of shards report. `h` is the number of rounds in which the
change fell to half; where it never was twice as large, all rounds so far. Left of `tol` stands the sum of all changes to come
if they go on halving as fast. So with tol = 1e-6 at most one item of 10,000 has a hundredth of its probability still to move.

The mean, because a few items of a million can wander for a thousand rounds where nothing else moves. What is to come instead of
the last change, because a fit that creeps past a saddle moves little in a round and much in all: changes shrink ever more
slowly, then grow again, and labels move only then. The bound, because parameters may still be on their way while labels rest.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

import numpy as np

from crowdwise.errors import ConvergenceWarning
from crowdwise.kernels.types import Floats

__all__ = ["ABOUT_TOL", "Progress", "Round", "Run", "loop", "remaining", "settled", "warn_unless_converged"]

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
    """
    rounds = list(before)
    converged = settled(rounds, tol)
    while not converged and len(rounds) < max_iter:
        state, done = step(state)
        rounds.append(done)
        if keep is not None:
            keep(state, rounds)
        if progress is not None:
            progress(len(rounds), done.bound, done.change)
        converged = settled(rounds, tol)
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
